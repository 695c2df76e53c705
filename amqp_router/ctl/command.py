"""``amqp-router ctl``: the command line of the verbs."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

from amqp_router.ctl import passwords
from amqp_router.ctl.client import (
    USAGE,
    Access,
    Certificates,
    Client,
    CtlError,
    Refused,
    by_file,
    by_password,
    by_token,
)
from amqp_router.ctl.completion import SHELLS, script
from amqp_router.ctl.missing import explained
from amqp_router.ctl.output import FORMATS
from amqp_router.ctl.verb import Verb
from amqp_router.ctl.verbs import VERBS

DESCRIPTION = """\
Look at a running broker and change it, over its HTTP API. On the machine and as the user of the broker,
`--data-dir` is enough: the broker keeps a file there that only its owner can read. Otherwise name its address
with --url, and a user with --user or an API token with --token-file.
"""
EXAMPLES = """\
examples:
  amqp-router ctl status                          the broker whose data is in ./data
  amqp-router ctl change_password guest --data-dir /var/lib/amqp-router
  amqp-router ctl list_queues name messages --vhost shop --format csv
  amqp-router ctl list_users --url http://broker:15672 --user admin --password-file secret
  amqp-router ctl doctor --quiet || mail -s 'broker' ops@example.com < /dev/null
  amqp-router ctl completion bash > /etc/bash_completion.d/amqp-router

exit codes: 0 done; 1 the broker refuses, or `doctor` found something; 2 a wrong command line; 3 no broker
"""
COMPLETIONS = (
    "amqp-router ctl completion bash > /etc/bash_completion.d/amqp-router",
    'amqp-router ctl completion zsh > "${fpath[1]}/_amqp-router"',
    "amqp-router ctl completion fish > ~/.config/fish/completions/amqp-router.fish",
)


def add_commands(commands: Any, parser_class: type[argparse.ArgumentParser], root: Any) -> None:
    """Add ``ctl`` to the commands of ``amqp-router``, whose parser is ``root``."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = commands.add_parser(
        "ctl",
        help="look at a running broker and change it (users, queues, policies, ...)",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=raw,
        allow_abbrev=False,
    )
    verbs = parser.add_subparsers(
        title="commands", metavar="command", parser_class=parser_class, required=True
    )
    for verb in VERBS.values():
        sub_parser = verbs.add_parser(
            verb.name,
            help=verb.help,
            description=f"{verb.help[0].upper()}{verb.help[1:]}.",
            epilog="\n  ".join(["examples:", *verb.examples]),
            formatter_class=raw,
            allow_abbrev=False,
        )
        for each in verb.arguments:
            sub_parser.add_argument(*each.names, **each.options)
        _add_access(sub_parser)
        sub_parser.set_defaults(run=partial(run, verb))
    completion = verbs.add_parser(
        "completion",
        help="print the completion of a shell: bash, zsh or fish",
        description="Print the completion of a shell: bash, zsh or fish.",
        epilog="\n  ".join(["examples:", *COMPLETIONS]),
        formatter_class=raw,
        allow_abbrev=False,
    )
    completion.add_argument("shell", choices=SHELLS, help="the shell")
    completion.set_defaults(run=lambda args: print(script(args.shell, root)) or 0)


def _add_access(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("broker and output")
    group.add_argument(
        "--data-dir",
        type=Path,
        metavar="DIR",
        default=Path("data"),
        help="its data directory (default: data)",
    )
    group.add_argument("--url", metavar="URL", help="its admin port, like http://127.0.0.1:15672")
    group.add_argument("--user", metavar="NAME", dest="login", help="log in as this user (with --url)")
    group.add_argument(
        "--password-file",
        type=Path,
        metavar="FILE",
        help="its first line is the password; - is standard input (default: ask)",
    )
    group.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="its first line is an API token, instead of --user; - is standard input (with --url)",
    )
    group.add_argument("--cacert", type=Path, metavar="FILE", help="certificates to trust for https")
    group.add_argument(
        "--cert", type=Path, metavar="FILE", help="own certificate, if the https port asks for one"
    )
    group.add_argument("--key", type=Path, metavar="FILE", help="its key (default: in the same file)")
    group.add_argument(
        "--format", choices=FORMATS, default="table", help="form of the output (default: table)"
    )
    group.add_argument("--quiet", action="store_true", help="print nothing but errors")


def run(verb: Verb, args: argparse.Namespace) -> int:
    """Run one verb; returns the exit code."""
    try:
        if args.key is not None and args.cert is None:
            raise CtlError("--key needs --cert", USAGE)
        client = Client(_access(args), Certificates(args.cacert, args.cert, args.key))
        try:
            return _run(verb, client, args)
        except Refused as refusal:
            raise explained(client, refusal) from None
    except CtlError as error:
        print(f"amqp-router: {verb.name}: {error}", file=sys.stderr)
        return error.code


def _run(verb: Verb, client: Client, args: argparse.Namespace) -> int:
    if not args.quiet:
        return verb.run(client, args)
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        return verb.run(client, args)


def _access(args: argparse.Namespace) -> Access:
    if args.url is None:
        if args.login is not None or args.password_file is not None or args.token_file is not None:
            raise CtlError("--user, --password-file and --token-file need --url", USAGE)
        return by_file(args.data_dir)
    if args.token_file is not None:
        if args.login is not None or args.password_file is not None:
            raise CtlError("--token-file stands in the place of --user and --password-file", USAGE)
        return by_token(args.url, passwords.from_file(args.token_file, "--token-file"))
    if args.login is None:
        raise CtlError("--url needs --user or --token-file", USAGE)
    if args.password_file is not None:
        password = passwords.from_file(args.password_file)
    else:
        password = passwords.asked(f"Password of {args.login}")
    return by_password(args.url, args.login, password)

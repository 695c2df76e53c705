"""The verbs that change users, virtual hosts, permissions, policies and limits."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from amqp_router.ctl import passwords
from amqp_router.ctl.client import USAGE, Client, CtlError, part
from amqp_router.ctl.verb import VHOST, Argument, Verb, argument
from amqp_router.nearest import did_you_mean

#: The tags that give rights.
TAGS = ("administrator", "monitoring", "policymaker", "management")
USER = argument("user", metavar="USER", help="name of the user")
NEW_PASSWORD = argument(
    "new_password",
    metavar="PASSWORD",
    nargs="?",
    help="by default it is asked for, or read from standard input; other users of the machine see arguments",
)
NAME = argument("name", metavar="NAME", help="its name")


def read_json(text: str, what: str) -> dict[str, Any]:
    """A JSON object of the command line.

    Raises:
        CtlError: it is none.
    """
    try:
        found = json.loads(text)
    except ValueError as error:
        raise CtlError(f"{what}: {text!r} is not JSON ({error})", USAGE) from None
    if not isinstance(found, dict):
        raise CtlError(f'{what}: {text!r} is not a JSON object like {{"max-length": 1000}}', USAGE)
    return found


def add_user(client: Client, args: argparse.Namespace) -> int:
    """Add a user without tags and permissions."""
    if any(user["name"] == args.user for user in client.get("/api/users")):
        raise CtlError(f"user {args.user} exists; change_password changes its password")
    password = args.new_password or passwords.asked(f"Password of {args.user}")
    client.call("PUT", f"/api/users/{part(args.user)}", {"password": password, "tags": ""})
    return 0


def change_password(client: Client, args: argparse.Namespace) -> int:
    """Change a user's password."""
    user = client.get(f"/api/users/{part(args.user)}")
    password = args.new_password or passwords.asked(f"New password of {args.user}")
    client.call(
        "PUT", f"/api/users/{part(args.user)}", {"password": password, "tags": ",".join(user["tags"])}
    )
    return 0


def clear_password(client: Client, args: argparse.Namespace) -> int:
    """Let a user log in with no password."""
    user = client.get(f"/api/users/{part(args.user)}")
    client.call("PUT", f"/api/users/{part(args.user)}", {"password_hash": "", "tags": ",".join(user["tags"])})
    return 0


def authenticate_user(client: Client, args: argparse.Namespace) -> int:
    """Try a user's password."""
    password = args.new_password or passwords.asked(f"Password of {args.user}")
    client.as_user(args.user, password).get("/api/whoami")
    return 0


def set_user_tags(client: Client, args: argparse.Namespace) -> int:
    """Replace a user's tags. Any tag may be set, as in RabbitMQ, so a wrong one is only mentioned."""
    for tag in args.tags:
        hint = did_you_mean(tag, TAGS)
        if tag not in TAGS and hint:
            text = f"the tag {tag} gives no rights; {hint}"
            print(f"amqp-router: set_user_tags: {text}", file=sys.stderr)
    user = client.get(f"/api/users/{part(args.user)}")
    body = {
        "password_hash": user["password_hash"],
        "hashing_algorithm": user["hashing_algorithm"],
        "tags": ",".join(args.tags),
    }
    client.call("PUT", f"/api/users/{part(args.user)}", body)
    return 0


def set_permissions(client: Client, args: argparse.Namespace) -> int:
    """Set what a user may do in a virtual host."""
    body = {"configure": args.configure, "write": args.write, "read": args.read}
    client.call("PUT", f"/api/permissions/{part(args.vhost)}/{part(args.user)}", body)
    return 0


def set_topic_permissions(client: Client, args: argparse.Namespace) -> int:
    """Set with which routing keys a user may publish to a topic exchange, and bind to it."""
    body = {"exchange": args.exchange, "write": args.write, "read": args.read}
    client.call("PUT", f"/api/topic-permissions/{part(args.vhost)}/{part(args.user)}", body)
    return 0


def add_vhost(client: Client, args: argparse.Namespace) -> int:
    """Add a virtual host."""
    body = {"description": args.description or "", "tags": args.tags or ""}
    if any(vhost["name"] == args.name for vhost in client.get("/api/vhosts")):
        raise CtlError(f"virtual host {args.name} exists")
    client.call("PUT", f"/api/vhosts/{part(args.name)}", body)
    return 0


def _set_policy(base: str) -> Any:
    def run(client: Client, args: argparse.Namespace) -> int:
        body = {
            "pattern": args.pattern,
            "definition": read_json(args.definition, "DEFINITION"),
            "priority": args.priority,
            "apply-to": args.apply_to,
        }
        client.call("PUT", f"{base}/{part(args.vhost)}/{part(args.name)}", body)
        return 0

    return run


def _set_limits(base: str, owner: str) -> Any:
    def run(client: Client, args: argparse.Namespace) -> int:
        path = f"{base}/{part(getattr(args, owner))}"
        for name, value in read_json(args.definition, "LIMITS").items():
            client.call("PUT", f"{path}/{part(name)}", {"value": value})
        return 0

    return run


def _clear_limits(base: str, owner: str) -> Any:
    def run(client: Client, args: argparse.Namespace) -> int:
        path = f"{base}/{part(getattr(args, owner))}"
        for row in client.get(path):
            for name in row["value"]:
                client.call("DELETE", f"{path}/{part(name)}")
        return 0

    return run


def delete(path: str) -> Any:
    """The function of a verb that deletes what ``path`` names."""

    def run(client: Client, args: argparse.Namespace) -> int:
        names = {name: part(value) for name, value in vars(args).items() if isinstance(value, str)}
        client.call("DELETE", path.format_map(names))
        return 0

    return run


def _policy(kind: str, what: str) -> tuple[Verb, Verb]:
    base = f"/api/{kind}-policies" if kind else "/api/policies"
    prefix = f"{kind}_" if kind else ""
    arguments: tuple[Argument, ...] = (
        NAME,
        argument("pattern", metavar="PATTERN", help="regular expression of the names it applies to"),
        argument("definition", metavar="DEFINITION", help="JSON object like '{\"max-length\": 1000}'"),
        argument("--priority", type=int, default=0, metavar="N", help="the highest applies (default: 0)"),
        argument(
            "--apply-to",
            choices=("all", "queues", "exchanges"),
            default="all" if not kind else "queues",
            help="kinds of objects",
        ),
        VHOST,
    )
    example = (
        f"amqp-router ctl set_{prefix}policy limited '^jobs\\.' '{{\"max-length\": 1000}}' --apply-to queues"
    )
    return (
        Verb(f"set_{prefix}policy", f"set {what}", _set_policy(base), arguments, (example,)),
        Verb(
            f"clear_{prefix}policy",
            f"delete {what}",
            delete(base + "/{vhost}/{name}"),
            (NAME, VHOST),
            (f"amqp-router ctl clear_{prefix}policy limited",),
        ),
    )


VERBS = (
    Verb(
        "add_user",
        "add a user; set_permissions lets it in",
        add_user,
        (USER, NEW_PASSWORD),
        (
            "amqp-router ctl add_user alice",
            "amqp-router ctl add_user alice < /run/secrets/alice",
        ),
    ),
    Verb(
        "delete_user",
        "delete a user and close its connections",
        delete("/api/users/{user}"),
        (USER,),
        ("amqp-router ctl delete_user guest",),
    ),
    Verb(
        "change_password",
        "change a user's password",
        change_password,
        (USER, NEW_PASSWORD),
        ("amqp-router ctl change_password guest --data-dir /var/lib/amqp-router",),
    ),
    Verb(
        "clear_password",
        "take a user's password away; nobody can log in with one",
        clear_password,
        (USER,),
        ("amqp-router ctl clear_password alice",),
    ),
    Verb(
        "authenticate_user",
        "try a user's password; exit code 1 if it is wrong",
        authenticate_user,
        (USER, NEW_PASSWORD),
        ("amqp-router ctl authenticate_user alice",),
    ),
    Verb(
        "set_user_tags",
        "replace a user's tags (administrator, monitoring, policymaker, management)",
        set_user_tags,
        (USER, argument("tags", metavar="TAG", nargs="*", help="the new tags; none takes all away")),
        ("amqp-router ctl set_user_tags alice monitoring",),
    ),
    Verb(
        "set_permissions",
        "set what a user may configure, write and read in a virtual host",
        set_permissions,
        (
            USER,
            argument("configure", metavar="CONFIGURE", help="regular expression of what it may declare"),
            argument("write", metavar="WRITE", help="... publish and bind to"),
            argument("read", metavar="READ", help="... consume from"),
            VHOST,
        ),
        ("amqp-router ctl set_permissions alice '^alice\\.' '.*' '.*' --vhost shop",),
    ),
    Verb(
        "clear_permissions",
        "take a user's permissions in a virtual host away; it can no longer enter",
        delete("/api/permissions/{vhost}/{user}"),
        (USER, VHOST),
        ("amqp-router ctl clear_permissions alice --vhost shop",),
    ),
    Verb(
        "set_topic_permissions",
        "set a user's routing keys for a topic exchange",
        set_topic_permissions,
        (
            USER,
            argument("exchange", metavar="EXCHANGE", help="name of the exchange"),
            argument("write", metavar="WRITE", help="regular expression of keys to publish with"),
            argument("read", metavar="READ", help="... to bind with"),
            VHOST,
        ),
        ("amqp-router ctl set_topic_permissions alice amq.topic '^eu\\.' '.*'",),
    ),
    Verb(
        "clear_topic_permissions",
        "delete a user's topic permissions in a virtual host",
        delete("/api/topic-permissions/{vhost}/{user}"),
        (USER, VHOST),
        ("amqp-router ctl clear_topic_permissions alice",),
    ),
    Verb(
        "add_vhost",
        "add a virtual host",
        add_vhost,
        (
            NAME,
            argument("--description", metavar="TEXT", help="what it is for"),
            argument("--tags", metavar="TAGS", help="tags with commas"),
        ),
        ("amqp-router ctl add_vhost shop --description 'orders and mails'",),
    ),
    Verb(
        "delete_vhost",
        "delete a virtual host with all that is in it",
        delete("/api/vhosts/{name}"),
        (NAME,),
        ("amqp-router ctl delete_vhost shop",),
    ),
    *_policy("", "a policy"),
    *_policy("operator", "an operator policy"),
    Verb(
        "set_vhost_limits",
        "set limits of a virtual host",
        _set_limits("/api/vhost-limits", "vhost"),
        (
            argument("definition", metavar="LIMITS", help="JSON object like '{\"max-connections\": 100}'"),
            VHOST,
        ),
        ("amqp-router ctl set_vhost_limits '{\"max-queues\": 1000}' --vhost shop",),
    ),
    Verb(
        "clear_vhost_limits",
        "remove all limits of a virtual host",
        _clear_limits("/api/vhost-limits", "vhost"),
        (VHOST,),
        ("amqp-router ctl clear_vhost_limits --vhost shop",),
    ),
    Verb(
        "set_user_limits",
        "set limits of a user",
        _set_limits("/api/user-limits", "user"),
        (
            USER,
            argument("definition", metavar="LIMITS", help="JSON object like '{\"max-channels\": 100}'"),
        ),
        ("amqp-router ctl set_user_limits alice '{\"max-connections\": 5}'",),
    ),
    Verb(
        "clear_user_limits",
        "remove all limits of a user",
        _clear_limits("/api/user-limits", "user"),
        (USER,),
        ("amqp-router ctl clear_user_limits alice",),
    ),
)

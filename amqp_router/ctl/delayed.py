"""The verbs for messages that wait in an exchange of type x-delayed-message."""

from __future__ import annotations

import argparse
import sys

from amqp_router.ctl.client import USAGE, Client, CtlError, own_part
from amqp_router.ctl.output import rows_text, show
from amqp_router.ctl.tokens import utc
from amqp_router.ctl.verb import VHOST, Verb, argument

COLUMNS = ("id", "due", "routing_key", "exchange", "payload_bytes")
COUNT_DEFAULT = 100

_EXCHANGE = argument("exchange", metavar="EXCHANGE", help="name of the exchange")


def _path(args: argparse.Namespace) -> str:
    return f"/admin/v1/exchanges/{own_part(args.vhost)}/{own_part(args.exchange)}/delayed"


def list_delayed(client: Client, args: argparse.Namespace) -> int:
    """The messages that are due first."""
    found = client.get(_path(args), count=str(args.count))
    rows = [{**each, "due": utc(each["due"], "")} for each in found["first"]]
    columns = COLUMNS if args.format != "json" else (*COLUMNS, "properties")
    show(rows_text(rows, columns, args.format))
    if found["messages"] > len(rows):
        print(f"{found['messages'] - len(rows)} more wait; --count shows up to 500", file=sys.stderr)
    return 0


def cancel_delayed(client: Client, args: argparse.Namespace) -> int:
    """Drop one message, or all."""
    if args.all == (args.id is not None):
        raise CtlError("give the ID of one message, or --all", USAGE)
    client.call("DELETE", _path(args) if args.all else f"{_path(args)}/{own_part(args.id)}")
    return 0


VERBS = (
    Verb(
        "list_delayed",
        "messages that wait in an x-delayed-message exchange, those due first at the top",
        list_delayed,
        (
            _EXCHANGE,
            argument(
                "--count",
                type=int,
                default=COUNT_DEFAULT,
                metavar="N",
                help=f"at most so many, up to 500 (default: {COUNT_DEFAULT})",
            ),
            VHOST,
        ),
        ("amqp-router ctl list_delayed reminders --format json",),
    ),
    Verb(
        "cancel_delayed",
        "drop a message that waits in an x-delayed-message exchange",
        cancel_delayed,
        (
            _EXCHANGE,
            argument("id", metavar="ID", nargs="?", help="its id, as in list_delayed"),
            argument("--all", action="store_true", help="drop all that wait there"),
            VHOST,
        ),
        ("amqp-router ctl cancel_delayed reminders 1795848350000000-17",),
    ),
)

"""The verbs for API tokens."""

from __future__ import annotations

import argparse
import datetime
from typing import Any

from amqp_router.ctl.client import Client, own_part
from amqp_router.ctl.output import pairs_text, rows_text, show
from amqp_router.ctl.verb import Verb, argument

COLUMNS = ("id", "name", "user", "tags", "read_only", "expires", "expired", "used")
DAYS_DEFAULT = 90


def utc(ms: int | None, otherwise: str) -> str:
    """A time in milliseconds since 1970 as people write it."""
    if ms is None:
        return otherwise
    return f"{datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC):%Y-%m-%dT%H:%M:%SZ}"


def add_token(client: Client, args: argparse.Namespace) -> int:
    """Make a token and print it."""
    body: dict[str, Any] = {
        "user": args.user,
        "name": args.name,
        "read_only": args.read_only,
        "valid_days": None if args.forever else args.days,
    }
    if args.tags is not None:
        body["tags"] = args.tags.split(",")
    made = client.call("POST", "/admin/v1/tokens", body)
    if args.format == "table":
        show(made["token"])
    else:
        show(pairs_text(made, args.format))
    return 0


def list_tokens(client: Client, args: argparse.Namespace) -> int:
    """The tokens, without their secrets."""
    rows = [
        {**each, "expires": utc(each["expires"], "never"), "used": utc(each["used"], "not since the start")}
        for each in client.get("/admin/v1/tokens")
    ]
    show(rows_text(rows, COLUMNS, args.format))
    return 0


def delete_token(client: Client, args: argparse.Namespace) -> int:
    """Revoke a token."""
    client.call("DELETE", f"/admin/v1/tokens/{own_part(args.id)}")
    return 0


VERBS = (
    Verb(
        "add_token",
        "make an API token of a user and print it; nobody can see it again",
        add_token,
        (
            argument("user", metavar="USER", help="whose token: it may do at most what this user may"),
            argument("name", metavar="NAME", nargs="?", default="", help="what it is for, for lists"),
            argument(
                "--tags",
                metavar="TAGS",
                help="with commas: administrator, monitoring, policymaker, management (default: the user's)",
            ),
            argument("--read-only", action="store_true", help="it cannot change anything"),
            argument(
                "--days",
                metavar="N",
                type=int,
                default=DAYS_DEFAULT,
                help=f"it ends after so many days (default: {DAYS_DEFAULT})",
            ),
            argument("--forever", action="store_true", help="it ends only when it is revoked"),
        ),
        ("amqp-router ctl add_token monitor prometheus --tags monitoring --read-only",),
    ),
    Verb(
        "list_tokens",
        "API tokens: whose they are, what they may do, when they end",
        list_tokens,
        (),
        ("amqp-router ctl list_tokens",),
    ),
    Verb(
        "delete_token",
        "revoke an API token at once",
        delete_token,
        (argument("id", metavar="ID", help="its id, as in list_tokens"),),
        ("amqp-router ctl delete_token 3f9c0a1b2c4d",),
    ),
)

"""The verbs that move messages from a queue to another one, or to an exchange."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

from amqp_router.ctl.client import USAGE, Client, CtlError, own_part
from amqp_router.ctl.output import pairs_text, rows_text, show
from amqp_router.ctl.tokens import utc
from amqp_router.ctl.verb import VHOST, Verb, argument

PATH = "/admin/v1/moves"
COLUMNS = ("id", "state", "vhost", "queue", "target", "count", "moved", "left", "rate", "began", "reason")
#: Seconds between two looks at a move that is waited for: at first, and at most.
LOOK_S = 0.05
LOOK_MAX_S = 1.0
BAR_WIDTH = 30


def move_messages(client: Client, args: argparse.Namespace) -> int:
    """Move messages, and wait until they are moved; 1 if that fails."""
    path = f"/admin/v1/queues/{own_part(args.vhost)}/{own_part(args.queue)}/moves"
    body: dict[str, Any] = {"to": _target(args)}
    if args.count is not None:
        if args.count < 1:
            raise CtlError(f"--count: {args.count} is not above 0", USAGE)
        body["count"] = args.count
    move = client.call("POST", path, body)
    if args.no_wait:
        show(pairs_text(_row(move), args.format) if args.format != "table" else str(move["id"]))
        return 0
    try:
        move = _waited(client, move, _bar if sys.stderr.isatty() else lambda _: None)
    except KeyboardInterrupt:
        print(f"the move goes on; `amqp-router ctl stop_move {move['id']}` stops it", file=sys.stderr)
        raise
    if args.format != "table":
        show(pairs_text(_row(move), args.format))
    elif move["state"] != "failed":
        more = f", stopped with {move['left']} left" if move["state"] == "stopped" else ""
        show(f"{move['moved']} moved{more}")
    if move["state"] == "failed":
        raise CtlError(f"{move['moved']} moved, {move['left']} left: {move['reason']}")
    return 0 if move["state"] == "done" else 1


def _target(args: argparse.Namespace) -> dict[str, str]:
    if (args.target is None) == (args.exchange is None):
        raise CtlError("give the TARGET queue, or --exchange NAME", USAGE)
    if args.target is not None:
        if args.routing_key is not None:
            raise CtlError("--routing-key needs --exchange: a queue gets messages by its name", USAGE)
        to = {"queue": args.target}
    else:
        to = {"exchange": args.exchange or "amq.default"}
        if args.routing_key is not None:
            to["routing_key"] = args.routing_key
    if args.to_vhost is not None:
        to["vhost"] = args.to_vhost
    return to


def _waited(client: Client, move: dict[str, Any], tell: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """The move when it is over."""
    pause = LOOK_S
    while move["ended"] is None:
        tell(move)
        time.sleep(pause)
        pause = min(pause * 1.5, LOOK_MAX_S)
        move = client.get(f"{PATH}/{move['id']}")
    if tell is _bar:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    return move


def _bar(move: dict[str, Any]) -> None:
    """Draw how far it is, over what was drawn before."""
    print(f"\r{bar_text(move)}\x1b[K", end="", file=sys.stderr, flush=True)


def bar_text(move: dict[str, Any]) -> str:
    """One line on how far a move is."""
    count, moved = move["count"], move["moved"]
    done = BAR_WIDTH * moved // max(count, 1)
    text = f"[{'#' * done}{'.' * (BAR_WIDTH - done)}] {moved:,} of {count:,}"
    if move["state"] == "blocked":
        return f"{text}, waits: the node has an alarm"
    if move["rate"] > 0:
        text += f", {move['rate']:,.0f}/s, {move['left'] / move['rate']:,.0f} s left"
    return text


def list_moves(client: Client, args: argparse.Namespace) -> int:
    """The moves that run, and the last ones that have ended."""
    rows = [_row(move) for move in client.get(PATH)]
    show(
        rows_text(rows, COLUMNS if args.format != "json" else (*COLUMNS, "to", "user", "ended"), args.format)
    )
    return 0


def _row(move: dict[str, Any]) -> dict[str, Any]:
    to = move["to"]
    target = f"queue {to['queue']}" if "queue" in to else f"exchange {to['exchange'] or 'amq.default'}"
    if "routing_key" in to:
        target += f" key {to['routing_key']}"
    if to["vhost"] != move["vhost"]:
        target += f" in {to['vhost']}"
    times = {name: utc(move[name], "") if move[name] is not None else None for name in ("began", "ended")}
    return {**move, **times, "target": target}


def stop_move(client: Client, args: argparse.Namespace) -> int:
    """Let a move take no more messages."""
    client.call("DELETE", f"{PATH}/{own_part(args.id)}")
    return 0


VERBS = (
    Verb(
        "move_messages",
        "move the ready messages of a queue to another queue or to an exchange; exit code 1 if some are left",
        move_messages,
        (
            argument("queue", metavar="QUEUE", help="where they are"),
            argument("target", metavar="TARGET", nargs="?", help="queue that gets them, or use --exchange"),
            argument("--exchange", metavar="NAME", help="exchange that gets them, instead of TARGET"),
            argument(
                "--routing-key",
                metavar="KEY",
                help="routing key for the exchange (default: each message keeps its own)",
            ),
            argument("--count", type=int, metavar="N", help="at most so many (default: all that are ready)"),
            argument("--to-vhost", metavar="NAME", help="virtual host of the target (default: the same)"),
            argument("--no-wait", action="store_true", help="do not wait: print the id of the move"),
            VHOST,
        ),
        (
            "amqp-router ctl move_messages orders orders.old --count 1000",
            "amqp-router ctl move_messages emails.dead --exchange events",
        ),
    ),
    Verb(
        "list_moves",
        "moves of messages that run, and the last ones that have ended",
        list_moves,
        (),
        ("amqp-router ctl list_moves --format json",),
        COLUMNS,
    ),
    Verb(
        "stop_move",
        "stop a move of messages; what it has moved stays moved",
        stop_move,
        (argument("id", metavar="ID", help="its id, as in list_moves"),),
        ("amqp-router ctl stop_move 3",),
    ),
)

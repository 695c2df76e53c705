"""A sentence for each finding of the pages' "Needs attention"."""

from __future__ import annotations

import datetime
import shlex
from typing import Any

from amqp_router.ctl.output import text
from amqp_router.log_text import size_text

#: For each kind of finding. {mend} is a command, and so is {move}, which lacks the other queue.
SENTENCES = {
    "failed": "queue {name} in {vhost} cannot be used: {reason}",
    "disk": "the disk is almost full: {free} free",
    "memory": "the process uses {used} of {total} of the machine's memory",
    "files": "{used} of {total} file descriptors are open",
    "filling": "the disk will be full in {seconds} at the present rate: {free} free",
    "stuck": "the consumers of queue {name} in {vhost} hold {unacked} messages and do nothing; "
    "{ready} are ready; connection {connection} ({client}) holds {held} of them; "
    "`{mend}` gives them back; `{move}` brings the ready ones elsewhere",
    "hanging": "connection {connection} ({client}) holds {held} messages of queue {name} in {vhost} and has "
    "acknowledged none for a minute, while the other consumers finished {finished}; it hangs or has a long "
    "job; `{mend}` gives them back",
    "growing": "queue {name} in {vhost} grows by {per_minute} messages a minute; {ready} are ready, "
    "{consumers} consumers; `{move}` brings them elsewhere",
    "unroutable": "messages in {vhost} reach no queue: {rate:.2f} per second",
    "letters_wait": "{letters} dead letters of queue {name} in {vhost} wait for queue {target}: {reason}",
    "no_consumers": "nobody consumes queue {name} in {vhost}; {ready} messages are ready; "
    "`{move}` brings them elsewhere",
    "blocked": "connection {name} ({client}) of user {user} is held back: it publishes faster than the disk "
    "takes it",
}
#: Why a queue refuses dead letters that a move of its messages would let in, and what is said then.
FULL = "it is full"
MAKES_ROOM = "; `{move}` makes room there"
#: Values that are numbers of bytes, of these kinds.
SIZES = {"disk": ("free",), "memory": ("used", "total"), "filling": ("free",)}


class _Given(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        return "?"


def sentence(finding: dict[str, Any]) -> str:
    """What a finding says. One of a kind that a newer broker has is shown as it is."""
    kind = finding["kind"]
    form = SENTENCES.get(kind)
    if form is None:
        return text(finding)
    shown: dict[str, Any] = {
        name: text(value) if isinstance(value, str) else value for name, value in finding.items()
    }
    shown |= {name: size_text(shown[name]) for name in SIZES.get(kind, ()) if name in shown}
    if "seconds" in shown:
        shown["seconds"] = duration(shown["seconds"])
    if kind in ("stuck", "hanging"):
        shown["mend"] = text(_mend(finding))
    if kind == "letters_wait" and finding.get("reason") == FULL:
        form += MAKES_ROOM
        shown["move"] = text(_move(finding, finding.get("target", "?")))
    else:
        shown["move"] = text(_move(finding, finding.get("name", "?")))
    said = form.format_map(_Given(shown))
    if "since" in finding:
        since = datetime.datetime.fromtimestamp(finding["since"] / 1000, datetime.UTC)
        said += f" (since {since:%Y-%m-%d %H:%M:%S}Z{' or longer' if finding.get('longer') else ''})"
    return said


def duration(seconds: float) -> str:
    """``45 s``, ``12 min``, ``2 h 34 min``."""
    minutes = round(seconds / 60)
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _mend(finding: dict[str, Any]) -> str:
    """The command that frees what a consumer holds, ready for a shell."""
    if not finding.get("cancels", True):
        words = ["close_connection", finding.get("connection", "?")]
    else:
        words = ["close_consumer", finding.get("name", "?"), finding.get("tag", "?"), *_inside(finding)]
    return shlex.join(["amqp-router", "ctl", *words])


def _move(finding: dict[str, Any], queue: str) -> str:
    """The command that moves what is ready in ``queue``; the operator knows where to."""
    return shlex.join(["amqp-router", "ctl", "move_messages", queue, "OTHER", *_inside(finding)])


def _inside(finding: dict[str, Any]) -> list[str]:
    return ["--vhost", finding["vhost"]] if finding.get("vhost", "/") != "/" else []

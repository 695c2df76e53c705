"""``python tools/by_name_calls.py``: look-ups by name on the way of a message, in the C code of Cython.

A message passes ``PATH`` from its publish to its acknowledgement. A call or an attribute there of which
Cython does not know the type is looked up by name, which costs several times as much. Each is an error, named
with file, function and line, unless ``ALLOWED`` has it with its reason. One there that is no longer found is
an error, too.

The C code is that of the last build; where the build is older than its source, Cython is run again.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
C_FILES = ROOT / "build" / "cython"

#: The functions that every message passes, by module.
PATH: dict[str, tuple[str, ...]] = {
    "amqp_router/protocol/input.py": ("Input.next",),
    "amqp_router/connection/dispatch.py": ("Dispatch.take",),
    "amqp_router/channel/publishing.py": (
        "Inflow.add",
        "Inflow.remove",
        "Publishing.publish",
        "Publishing._answer",
        "Publishing.run_done",
    ),
    "amqp_router/channel/committing.py": (
        "Waiting.add",
        "Waiting.take",
        "Gathering.admit",
        "Gathering.publish",
        "Committing.publish_some",
        "Committing._publish",
        "Committing.note",
    ),
    "amqp_router/channel/intake.py": ("Intake.admit", "Intake.release"),
    "vhosts/exchanges/router.py": ("RouteCache.find",),
    "vhosts/publishing/publisher.py": (
        "Publisher.publish",
        "Publisher._give",
        "Publisher._count",
        "Publisher._note",
        "Publisher._wait",
        "Publisher._charge",
        "Publisher._hold",
        "Publisher.close_run",
    ),
    "vhosts/publishing/ports.py": ("Run.settled",),
    "vhosts/queues/queue.py": ("Queue.publish", "Queue.pump", "Queue.get", "Queue.take", "Queue.settle"),
    "vhosts/queues/mortal.py": ("MortalQueue._gone",),
    "vhosts/queues/standing.py": (
        "StandingQueue.await_durable",
        "StandingQueue.touch",
        "StandingQueue.grant",
        "StandingQueue.wake",
    ),
    "vhosts/queues/receipts.py": ("Receipts.wait",),
    "vhosts/queues/handle.py": ("Consumer.ready", "Consumer.wake", "QueueHandle.settle_range"),
    "vhosts/queues/ready/fifo.py": ("FifoOrder.push", "FifoOrder._push", "FifoOrder.pop"),
    "persistence/log/queue/queue_log.py": ("QueueLog.append", "QueueLog.settle"),
    "persistence/log/queue/batches.py": ("Batches.append", "Batches.settle"),
    "persistence/log/format/messages.py": ("MessagesBuilder.add",),
    "persistence/log/routing/recorder.py": ("Recorder.note",),
    "amqp_router/channel/confirms.py": ("Confirms.settle", "Confirms.emit", "Confirms._frame"),
    "amqp_router/channel/tags.py": ("Tags.add", "Tags.skip_tag", "Tags._advance"),
    "amqp_router/channel/consumer.py": ("ChannelConsumer.deliver", "ChannelConsumer.give"),
    "amqp_router/channel/delivery.py": (
        "Delivery.ack",
        "Delivery._settle",
        "Delivery._settle_range",
        "Delivery._settle_run",
        "Delivery._settle_taken",
        "Delivery._give_back",
    ),
    "amqp_router/channel/asking.py": ("Asking.got", "Asking._write"),
    "amqp_router/protocol/output.py": ("Output.content", "Output.touch"),
}

#: What is looked up by name all the same: function and name, and why.
ALLOWED: dict[tuple[str, str], str] = {
    ("Dispatch.take", "start_content"): "a content that has not arrived as a whole",
    ("Dispatch.take", "hold"): "a route that takes more than one turn to find",
    ("Dispatch.take", "publish"): "the same: the publish is put off",
    ("Intake.admit", "PreconditionFailed"): "there is no memory for the content",
    ("Publisher._note", "hold"): "the routing log's disk has fallen behind",
    ("QueueLog.append", "commit"): "once a log and round of writing",
    ("QueueLog.settle", "commit_settles"): "once a log and round of writing",
    ("Delivery._give_back", "credit_returned"): "the channel's limit was used up, and is no more",
    ("Delivery._settle", "in_slices"): "more than 4,096 deliveries are settled by one frame",
    ("Delivery._settle", "settle_some"): "the same",
    ("Queue.get", "refused"): "the queue has failed",
    ("Queue.get", "failure"): "the same",
    ("Queue.take", "note_use"): "queues that expire when nobody uses them",
    ("Asking.got", "answered"): "the answer came after the call",
    ("Asking._write", "shared"): "the first get of a channel from a queue",
    ("Asking._write", "watch"): "the queue has a timeout for acknowledgements",
    ("Asking._write", "connection"): "a large message, or one that was read or written on disk",
    ("Asking._write", "charge"): "the same",
    ("Output.content", "cut"): "the receiver takes smaller frames than the sender sent",
    ("Output.content", "from_bytes"): "bodies of several frames: a method of Python's int",
}

_SOURCE_LINE = re.compile(r'/\* "([^"]+\.py)":(\d+)$')
_LOOK_UP = re.compile(
    r"__Pyx_Py(?:Object|_Object)?_?(?:GetAttrStr|SetAttrStr|GetAttrStrNoError|CallMethod\w*|FastCallMethod)\w*"
    r"\(.*?(?:__pyx_n_[us]_|__pyx_mstate_global->__pyx_n_[us]_)(\w+)"
)


def functions(path: Path) -> dict[int, tuple[str, int]]:
    """For each line of the source the function it is in, as "Class.method", and the line of its ``def``."""
    found: dict[int, tuple[str, int]] = {}
    for node in ast.parse(path.read_text()).body:
        inner = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        for each in inner:
            if isinstance(each, ast.FunctionDef):
                for line in range(each.lineno, (each.end_lineno or each.lineno) + 1):
                    found[line] = (prefix + each.name, each.lineno)
    return found


def generated(source: Path) -> Path:
    """The C file of ``source``, made anew if it is older."""
    made = C_FILES / source.relative_to(ROOT).with_suffix(".c")
    needs = [source, source.with_suffix(".pxd")]
    if not made.exists() or made.stat().st_mtime < max(need.stat().st_mtime for need in needs):
        made.parent.mkdir(parents=True, exist_ok=True)
        directives = (
            "annotation_typing=False,boundscheck=False,wraparound=False,initializedcheck=False,cdivision=True"
        )
        command = [sys.executable, "-m", "cython", "-3", "-X", directives, "-o", str(made), str(source)]
        subprocess.run(command, cwd=ROOT, check=True, stderr=subprocess.DEVNULL)
    return made


def look_ups(source: Path) -> set[tuple[str, int, str]]:
    """What the functions of ``PATH`` look up by name: function, line and name."""
    name = source.relative_to(ROOT).as_posix()
    owners, wanted = functions(source), PATH[name]
    found = set()
    line = 0
    for text in generated(source).read_text().splitlines():
        mark = _SOURCE_LINE.search(text)
        if mark:
            line = int(mark[2]) if mark[1] == name else 0
            continue
        owner, first = owners.get(line, ("", 0))
        # Behind the line of a ``def`` stands the check for a subclass in Python that overrides the function.
        if owner in wanted and line != first:
            for each in _LOOK_UP.finditer(text):
                found.add((owner, line, each[1]))
    return found


def main() -> int:
    """Print what is looked up by name and not allowed."""
    status, used = 0, set()
    for name, wanted in PATH.items():
        source = ROOT / name
        known = {owner for owner, _ in functions(source).values()}
        for missing in sorted(set(wanted) - known):
            print(f"{name}: there is no function {missing}: correct PATH")
            status = 1
        for function, line, attribute in sorted(look_ups(source)):
            if (function, attribute) in ALLOWED:
                used.add((function, attribute))
                continue
            print(f"{name}:{line}: {function} looks up {attribute!r} by name")
            status = 1
    for function, attribute in sorted(ALLOWED.keys() - used):
        print(f"ALLOWED has {function} and {attribute!r}, which is not found any more")
        status = 1
    if status == 0:
        count = sum(map(len, PATH.values()))
        print(f"{count} functions look up nothing by name, but for {len(used)} names that are allowed.")
    return status


if __name__ == "__main__":
    raise SystemExit(main())

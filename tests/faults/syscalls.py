"""Reads a trace of strace and says which frames left a socket before the data they promise was on the disk.

The trace is of ``strace -f -y -xx -s <all> -e trace=...``: every call with paths and data in hexadecimal,
calls of several threads interleaved, a call that another interrupts split into "unfinished" and "resumed".
What counts is the order of these lines: a sync covers a write if it began after the write returned, and a
frame may leave if it is sent after that sync returned.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

CALLS = "write,writev,pwrite64,pwritev,pwritev2,sendto,sendmsg,fsync,fdatasync,sync_file_range,syncfs"
WRITES = ("write", "writev", "pwrite64", "pwritev", "pwritev2")
SENDS = ("sendto", "sendmsg", *WRITES)
SYNCS = ("fsync", "fdatasync", "syncfs")
_LINE = re.compile(r"^(?P<pid>\d+)\s+(?P<rest>.*)$")
_CALL = re.compile(r"^(?P<name>\w+)\(\d+<(?P<target>[^>]*)>(?P<arguments>.*)$", re.DOTALL)
_RESUMED = re.compile(r"^<\.\.\. (?P<name>\w+) resumed>(?P<arguments>.*)$", re.DOTALL)
_STRING = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_RESULT = re.compile(r"\)\s+= (?P<result>-?\d+)")


def why_not() -> str:
    """Why nothing can be traced here, or an empty text."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    tried = subprocess.run(["strace", "-o", os.devnull, "true"], capture_output=True, text=True, check=False)
    return f"strace does not work here: {tried.stderr.strip()}" if tried.returncode else ""


def strace(output: Path, *more: str) -> list[str]:
    """The command to put before another one."""
    return ["strace", "-f", "-y", "-xx", "-s", "1000000", "-o", str(output), "-e", f"trace={CALLS}", *more]


@dataclass
class Call:
    """One call; ``result`` is None until it returns."""

    name: str
    target: str
    data: bytes
    result: int | None = None


@dataclass
class Step:
    """A line of the trace: a call begins, returns, or both."""

    call: Call
    begins: bool
    returns: bool


def steps(lines: Iterable[str]) -> Iterator[Step]:
    """The calls of all threads in the order in which they began and returned."""
    unfinished: dict[str, Call] = {}
    for line in lines:
        matched = _LINE.match(line)
        if matched is None:
            continue
        pid, rest = matched["pid"], matched["rest"]
        resumed = _RESUMED.match(rest)
        if resumed is not None:
            call = unfinished.pop(pid, None)
            if call is not None:
                call.data += _data(resumed["arguments"])
                call.result = _result(resumed["arguments"])
                yield Step(call, begins=False, returns=True)
            continue
        started = _CALL.match(rest)
        if started is None:
            continue
        target = bytes.fromhex(started["target"].replace("\\x", "")).decode(errors="replace")
        call = Call(started["name"], target, _data(started["arguments"]))
        if rest.endswith("<unfinished ...>"):
            unfinished[pid] = call
            yield Step(call, begins=True, returns=False)
        else:
            call.result = _result(rest)
            yield Step(call, begins=True, returns=True)


def _data(text: str) -> bytes:
    return b"".join(bytes.fromhex(part.replace("\\x", "")) for part in _STRING.findall(text))


def _result(text: str) -> int:
    matched = _RESULT.search(text)
    return int(matched["result"]) if matched else -1


@dataclass
class Disk:
    """Which texts are in which files, and since which sync they are safe. Feed it every step."""

    markers: Sequence[bytes]
    #: marker -> number of copies that a sync has covered
    safe: dict[bytes, int] = field(default_factory=lambda: defaultdict(int))
    _written: dict[str, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    _syncing: list[tuple[Call, list[bytes]]] = field(default_factory=list)

    def step(self, step: Step) -> None:
        call = step.call
        if call.name in WRITES and call.target.startswith("/") and step.returns and (call.result or 0) > 0:
            data = call.data
            self._written[call.target] += [m for m in self.markers if m in data for _ in range(data.count(m))]
        if call.name in SYNCS:
            if step.begins:
                # syncfs covers every file, the others their own
                targets = list(self._written) if call.name == "syncfs" else [call.target]
                self._syncing.append((call, [m for t in targets for m in self._written.pop(t, [])]))
            if step.returns:
                self._end(call)

    def _end(self, call: Call) -> None:
        for index, (syncing, covered) in enumerate(self._syncing):
            if syncing is call:
                del self._syncing[index]
                if call.result == 0:
                    for marker in covered:
                        self.safe[marker] += 1
                return


def is_send(step: Step) -> bool:
    """Does this begin to send on a socket? From then on the peer may have it."""
    return step.begins and step.call.name in SENDS and step.call.target.startswith("socket")

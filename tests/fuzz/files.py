"""File cases: a data directory changed behind the broker's back, then commands, Arrow reader and a start.

What must not happen: a traceback, a hang, a crash; a confirmed message missing, or one that was settled back
again, without a warning in the log or a refusal; a message that is not the one published; an Arrow table with
fewer rows and no error.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import tempfile
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz import serving
from tests.fuzz.core import Case
from tests.fuzz.directory import ENDS, KINDS, OPTIONS, Base, copy, files, is_whole, make_base
from tests.interop.wire import Wire

#: What is done to a file, and how often.
CHANGES = {
    "flip": 10,
    "octet": 3,
    "zero": 4,
    "noise": 4,
    "truncate": 6,
    "extend": 3,
    "number": 4,
    "repeat": 2,
    "remove": 4,
    "empty": 2,
    "swap": 2,
    "copy": 1,
    "directory": 1,
    "remove folder": 2,
    "link": 1,
}
#: Resident set of a start, in MiB, on a directory of a few.
MEMORY_MIB = 400
#: Lines of the log that tell the operator of something.
TOLD = re.compile(r"^\S+ \S+ (WARNING|ERROR|CRITICAL)", re.MULTILINE)


def make(random: Random) -> Case:
    """``[end of the broker]``, then changes: ``[kind of file, which of them, change, place, value]``."""
    case: Case = [[random.choice(ENDS)]]
    for _ in range(random.choice((1, 1, 1, 1, 1, 2, 2, 3, 6))):
        kind = random.choice(list(KINDS))
        change = random.choices(list(CHANGES), list(CHANGES.values()))[0]
        place = random.random() if random.random() < 0.6 else random.choice((0.0, 1.0, 0.0001, 0.9999))
        case.append([kind, random.random(), change, place, random.getrandbits(32)])
    return case


def apply(step: list[Any], path: Path) -> str:
    """Change a file; its name, or an empty text if there is none of that kind."""
    kind, which, change, place, value = step
    found = [name for name in files(path) if re.fullmatch(KINDS[kind], name)]
    if not found:
        return ""
    number = int(which * len(found)) % len(found)
    file = path / found[number]
    random = Random(value)
    if file.is_symlink() or not file.is_file():
        return ""
    if change == "remove":
        file.unlink()
    elif change == "remove folder":
        folder = file.parent if file.parent != path else file
        shutil.rmtree(folder) if folder.is_dir() else folder.unlink()
    elif change == "directory":
        file.unlink()
        file.mkdir()
    elif change in ("swap", "copy", "link"):
        other = path / found[value % len(found)]
        if other != file and other.is_file():
            data, others = file.read_bytes(), other.read_bytes()
            if change == "link":
                other.unlink()
                other.symlink_to(file)
            else:
                other.write_bytes(data)
            if change == "swap":
                file.write_bytes(others)
    else:
        file.write_bytes(changed(file.read_bytes(), change, place, random))
    return found[number]


def changed(data: bytes, change: str, place: float, random: Random) -> bytes:
    """Content with one change; ``place`` is a share of its length."""
    at = min(int(place * len(data)), max(0, len(data) - 1))
    out = bytearray(data)
    size = min(len(data) - at, random.choice((1, 4, 16, 100, 4096)))
    match change:
        case "truncate":
            return data[: int(place * len(data))] if place < 1 else data[:-1]
        case "extend":
            return data + random.choice(
                (bytes(random.choice((1, 72, 5000))), random.randbytes(100), data[-200:])
            )
        case "empty":
            return b""
        case _ if not data:
            return random.randbytes(20)
        case "flip":
            out[at] ^= 1 << random.randrange(8)
        case "octet":
            out[at] = random.choice((0, 1, 127, 128, 255, 0x20, 0x30))
        case "zero":
            out[at : at + size] = bytes(size)
        case "noise":
            out[at : at + size] = random.randbytes(size)
        case "number":
            at &= ~3
            width = random.choice((4, 8))
            value = random.choice((0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1, 1 << 20))
            out[at : at + width] = (value & (1 << 8 * width) - 1).to_bytes(width, "little")
        case "repeat":
            out[at:at] = out[at : at + size]
    return bytes(out)


class Files:
    """The directories are made once, by brokers; a case changes a copy."""

    name = "files"

    def __init__(self, seed: int = 1) -> None:
        memory = Path("/dev/shm")
        self.root = Path(tempfile.mkdtemp(prefix="fuzz-files-", dir=memory if memory.is_dir() else None))
        self.bases = {end: make_base(self.root / end.replace(" ", "-"), seed, end) for end in ENDS}
        self.rows: dict[str, dict[str, int]] = {}
        #: What came of the starts.
        self.refused = self.told = self.silent = 0

    def make(self, random: Random) -> Case:
        return make(random)

    def run(self, case: Case) -> str:
        if not case or case[0][0] not in self.bases:
            return ""  # a case that was made smaller than that
        base = self.bases[case[0][0]]
        folder = self.root / "case"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        data_dir = folder / "data"
        copy(base.path, data_dir)
        changes = [(step, name) for step in case[1:] if (name := apply(step, data_dir))]
        if not changes and len(case) > 1:
            return ""
        found = self._look(folder, data_dir, base, changed=bool(changes)) or self._start(
            folder, data_dir, base
        )
        if not found:
            return ""
        names = "\n".join(f"{name}: {step[2]}" for step, name in changes)
        kinds = ", ".join(sorted({f"{step[0]}: {step[2]}" for step, _ in changes}))
        return f"{found}\n{names}\n({kinds})"

    def _look(self, folder: Path, data_dir: Path, base: Base, *, changed: bool) -> str:
        """The commands and the Arrow reader."""
        if changed and base.end not in self.rows:
            whole = self._whole(folder, base)
            if whole:
                return whole
        answer = folder / "look.json"
        fork = serving.Fork(serving.look, str(data_dir), str(answer), output=folder / "look.log")
        if not fork.wait():
            return f"log inspect, verify or the Arrow reader hang: {fork.text()[-3000:]}"
        if fork.exitcode:
            return (
                f"log inspect, verify or the Arrow reader ended with {fork.exitcode}: {fork.text()[-3000:]}"
            )
        found = json.loads(answer.read_text())
        rows = {table: found[table].get("rows", -1) for table in ("messages", "routing")}
        if not changed:
            self.rows[base.end] = rows
            return ""
        for table, count in rows.items():
            whole = self.rows[base.end][table]
            if 0 <= count < whole:
                return f"Arrow's table {table} has fewer rows and no error: {count} of {whole}"
        return ""

    def _whole(self, folder: Path, base: Base) -> str:
        """The directory as it is, once: what Arrow says of it, and that a start holds what it must."""
        for act in (self._look, self._start):
            data_dir = folder / "whole"
            copy(base.path, data_dir)
            found = act(folder, data_dir, base, **({"changed": False} if act == self._look else {}))
            shutil.rmtree(data_dir)
            if found:
                return f"the directory is not changed at all: {found}"
        return ""

    def _start(self, folder: Path, data_dir: Path, base: Base) -> str:
        """A start, what the queues then hold, a stop and a second start."""
        log = folder / "broker.log"
        log.unlink(missing_ok=True)
        for attempt in ("start", "second start"):
            ready = folder / "ready.json"
            ready.unlink(missing_ok=True)
            fork = serving.Fork(serving.serve, str(data_dir), str(ready), OPTIONS, output=log)
            try:
                problem = self._served(fork, ready, base, attempt)
            finally:
                fork.kill()
            if problem is None:
                self.refused += 1
                return ""  # and it said why
            if problem:
                return problem
        return ""

    def _served(self, fork: serving.Fork, ready: Path, base: Base, attempt: str) -> str | None:
        about = serving.ready(ready, fork)
        if about is None:
            if fork.exitcode is None:
                fork.wait(0)
                return f"the {attempt} hangs: {fork.text()[-3000:]}"
            text = fork.text()
            if "Traceback" in text or fork.exitcode < 0 or fork.exitcode >= 70 or not text.strip():
                return f"the {attempt} ended with {fork.exitcode}: {trace(text)}"
            return None
        try:
            held = contents(about["amqp"]["port"], base) if attempt == "start" else {}
        except (OSError, AssertionError) as error:
            return f"a client after the {attempt} got {error!r}: {trace(fork.text())}"
        memory = resident_peak(fork.process.pid)
        os.kill(fork.process.pid, signal.SIGTERM)
        if not fork.wait():
            return f"SIGTERM does not end the broker after the {attempt}: {fork.text()[-3000:]}"
        text = fork.text()
        if "Traceback" in text or fork.exitcode:
            return f"the broker ended with {fork.exitcode} after the {attempt}: {trace(text)}"
        if memory > MEMORY_MIB:
            return f"the {attempt} took {memory} MiB"
        if attempt != "start":
            return ""
        told = bool(TOLD.search(text))
        self.told += told
        self.silent += not told
        return judged(held, base, told)

    def facts(self) -> str:
        return f"{self.refused} starts refused, {self.told} with a warning, {self.silent} as if nothing was"

    def checkpoint(self) -> str:
        return ""

    def fresh(self) -> None:
        """Every case begins with a copy of its own."""

    def close(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)


def trace(text: str) -> str:
    """From the last traceback on, or the end."""
    at = text.rfind("Traceback")
    return text[at:][:4000] if at >= 0 else text[-1500:]


def resident_peak(pid: int) -> int:
    """MiB."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) // 1024
    return 0


def contents(port: int, base: Base) -> dict[str, list[bytes] | None]:
    """What is in the queues; None for one that says it is not available."""
    found: dict[str, list[bytes] | None] = {}
    wire = Wire(port)
    wire.open_channel(1)
    for queue in base.held:
        reply = wire.call(1, "queue.declare", timeout=20, queue=queue, passive=True)
        if reply.name == "channel.close":
            wire.send(1, "channel.close-ok")
            wire.open_channel(1)
            # NOT_FOUND is no excuse: the queue is gone, and its messages with it
            found[queue] = [] if reply.code == 404 else None
            continue
        assert reply.name == "queue.declare-ok", reply
        bodies: list[bytes] = []
        found[queue] = bodies
        while True:
            got = wire.call(1, "basic.get", timeout=20, queue=queue)
            if got.name == "basic.get-empty":
                break
            if got.name == "channel.close":
                wire.send(1, "channel.close-ok")
                wire.open_channel(1)
                found[queue] = None
                break
            assert got.name == "basic.get-ok", got
            bodies.append(got.body)
    wire.close()
    return found


def judged(found: dict[str, list[bytes] | None], base: Base, told: bool) -> str:
    """Compare with what was confirmed."""
    for queue, bodies in found.items():
        if bodies is None:
            continue
        held = base.held[queue]
        for data in bodies:
            if not is_whole(data):
                return f"queue {queue!r} delivers a message that nobody published: {data[:60]!r}"
            if not data.startswith(f"{queue}:".encode()):
                return f"queue {queue!r} delivers a message of another queue: {data[:60]!r}"
        if len(set(bodies)) < len(bodies):
            return f"queue {queue!r} delivers messages twice"
        if told:
            continue
        if missing := set(held) - set(bodies):
            return f"queue {queue!r} lost {len(missing)} of {len(held)} confirmed messages without a word"
        if back := base.gone[queue] & set(bodies):
            return f"queue {queue!r} has {len(back)} settled messages back without a word"
        if [data for data in bodies if data in set(held)] != held:
            return f"queue {queue!r} is in another order"
    return ""

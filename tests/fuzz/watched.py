"""A broker process of which every sign of trouble is a finding."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

from tests.brokers import BrokerDied, RouterProcess
from tests.faults.holds import TIMED_ENTRY, Holds
from tests.faults.honest import Honest
from tests.faults.soak import resident
from tests.patience import Patience

#: A callback may hold the loop for so many milliseconds of CPU time; uncompiled, everything takes longer.
HOLD_MS, HOLD_UNCOMPILED_MS = 100.0, 1000.0
#: Resident set, in MiB. What cases leave is little and is dropped at every restart.
MEMORY_MIB = 600.0
SIGNS = ("Traceback (most recent call last)", "INTERNAL_ERROR", " 541 ")


class Watched:
    """A broker, and an honest client with it. ``fresh`` starts both on an empty data directory."""

    def __init__(self, options: tuple[str, ...] = ()) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="fuzz-"))
        self.options = options
        self.broker: RouterProcess | None = None
        self.honest: Honest | None = None
        self.holds = Holds(self.directory / "holds")
        self.position = 0
        self.generation = 0
        self.highest_mib = 0.0
        self.longest_ms = 0.0

    def fresh(self) -> None:
        """End what runs and start anew."""
        self._kill()
        if self.generation:
            shutil.rmtree(self.directory / str(self.generation), ignore_errors=True)
        self.generation += 1
        self.broker = RouterProcess(
            self.directory / str(self.generation),
            options=list(self.options),
            entry=TIMED_ENTRY,
            environment=self.holds.environment,
        )
        self.position = 0
        self._start()

    def _start(self) -> None:
        assert self.broker is not None
        self.broker.start()
        self.honest = Honest(self.broker.port, clock=Patience(self.broker.pid).look)
        # Nobody is served while it starts. The end of the start is behind it when it has served a client: a
        # callback is written down after it ended, and this one writes the ready file before.
        self.holds.new()
        self.honest.start()

    def _kill(self) -> None:
        if self.honest is not None:
            self.honest.ending.set()
        if self.broker is not None:
            self.broker.kill9()
        if self.honest is not None:
            self.honest.join()
            self.honest.wire.socket.close()
        self.honest = None

    def restart(self) -> str:
        """A clean stop, and a start on what the cases have left."""
        assert self.broker is not None
        assert self.honest is not None
        problem = self.honest.finish() or self.look()
        if problem:
            return problem
        self.honest = None
        try:
            code = self.broker.stop()
            if code:
                return f"the broker ended with {code} at SIGTERM"
            self._start()
        except BrokerDied as error:
            return str(error)
        return self.look()

    def look(self) -> str:
        """What is wrong, or an empty text."""
        broker, honest = self.broker, self.honest
        assert broker is not None
        assert broker.process is not None
        if broker.process.poll() is not None:
            return f"the broker ended with {broker.process.returncode}:\n{broker.log()[-3000:]}"
        if problem := self._log():
            return problem
        if honest is not None and honest.problem:
            return honest.problem
        hold = self.holds.longest()
        self.longest_ms = max(self.longest_ms, hold.cpu_ms)
        if hold.cpu_ms > (HOLD_MS if broker.compiled else HOLD_UNCOMPILED_MS):
            return f"a callback held the loop for {hold.cpu_ms:.0f} ms of CPU time: {hold.callback}"
        memory = resident(broker.pid)
        self.highest_mib = max(self.highest_mib, memory)
        if memory > MEMORY_MIB:
            return f"the broker has {memory:.0f} MiB, more than {MEMORY_MIB:.0f}"
        return ""

    def look_for(self, found: str) -> str:
        """What the log says of a reply that must not be, or the reply itself."""
        for _ in range(20):
            if problem := self._log():
                return problem
            time.sleep(0.05)
        return found

    def facts(self) -> str:
        """What was measured."""
        return f"longest hold {self.longest_ms:.0f} ms of CPU time, at most {self.highest_mib:.0f} MiB"

    def _log(self) -> str:
        assert self.broker is not None
        path = self.broker.log_file
        if os.path.getsize(path) == self.position:
            return ""
        with path.open("rb") as file:
            file.seek(self.position)
            data = file.read()
        self.position += len(data)
        text = data.decode(errors="replace")
        for sign in SIGNS:
            at = text.find(sign)
            if at >= 0:
                before, line, behind = text[max(0, text.rfind("\n20", 0, at)) : at + 4000].partition("\n20")
                told = before or line + behind.partition("\n20")[0]
                return f"the broker's log has: {told.strip()}"
        return ""

    def close(self) -> None:
        """End both and remove what they wrote."""
        self._kill()
        shutil.rmtree(self.directory, ignore_errors=True)

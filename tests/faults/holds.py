"""How long single callbacks hold the event loop of a broker process, and how long its turns last.

A turn is one iteration of the loop: all callbacks that were ready. A client that is not read yet waits for
the end of it, so many short callbacks in one turn are as bad as a long one. Both are measured inside the
broker, and so are collections of garbage, each a part of some callback. Beside each stands how many pages
the kernel had to find for it: memory that is new, or was given back. In a virtual machine one takes 2 to 12
microseconds.

The broker is started by `TIMED_ENTRY` instead of its console script, which works with any version of it. CPU
time does not depend on what else the machine does; wall time also has waiting for disk, locks and kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.brokers import ENTRY

#: Callbacks that take longer are written down, in seconds.
LONG_S = 0.002
#: Environment variable with the file that gets a line for each of them.
VARIABLE = "LOOP_HOLDS"
#: In place of a callback: the line is about a whole turn.
TURN = "(turn)"
TIMED_ENTRY = f"""
import asyncio.base_events, asyncio.events, gc, os, resource, time
plain, cpu, wall = asyncio.events.Handle._run, time.thread_time, time.perf_counter
usage, thread = resource.getrusage, resource.RUSAGE_THREAD
def faults():
    return usage(thread).ru_minflt
out = open(os.environ["{VARIABLE}"], "a", buffering=1)
def told(what):
    # A step of a task shows only an address; the names of what it waits for say where it went.
    for each in (getattr(what, "__self__", None), *gc.get_referents(what)):
        if isinstance(each, asyncio.Task):
            names, inner = [each.get_name()], each.get_coro()
            while inner is not None:
                names.append(getattr(inner, "__qualname__", type(inner).__name__))
                inner = getattr(inner, "cr_await", None)
            return " < ".join(names)
    return repr(what)
def timed(self):
    what, faults_before, cpu_before, before = self._callback, faults(), cpu(), wall()
    plain(self)
    took = wall() - before
    if took > {LONG_S}:
        ran, pages = cpu() - cpu_before, faults() - faults_before
        out.write(f"{{ran * 1000:.2f}} {{took * 1000:.2f}} {{pages}} {{told(what):.600}}\\n")
asyncio.events.Handle._run = timed
def collected(phase, about):
    global collect_began
    if phase == "start":
        collect_began = cpu()
    elif (took := cpu() - collect_began) > {LONG_S}:
        name = f"garbage collection of generation {{about['generation']}}"
        out.write(f"{{took * 1000:.2f}} 0 0 {{name}}\\n")
gc.callbacks.append(collected)
once = asyncio.base_events.BaseEventLoop._run_once
def turn(self):
    cpu_before = cpu()
    once(self)
    if (took := cpu() - cpu_before) > {LONG_S}:
        out.write(f"{{took * 1000:.2f}} 0 0 {TURN}\\n")
asyncio.base_events.BaseEventLoop._run_once = turn
""" + ENTRY.replace("; ", "\n")


@dataclass
class Hold:
    """One callback: milliseconds of CPU time and of wall time, page faults, and which it was.

    `Holds.longest` adds the CPU time of the longest turn.
    """

    cpu_ms: float = 0.0
    wall_ms: float = 0.0
    faults: int = 0
    callback: str = ""
    turn_ms: float = 0.0


class Holds:
    """Reads what the timed broker writes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.position = 0

    @property
    def environment(self) -> dict[str, str]:
        """For the broker's process."""
        return {VARIABLE: str(self.path)}

    def new(self) -> list[Hold]:
        """Those since the last call that took longer than `LONG_S`."""
        if not self.path.exists():
            return []
        with self.path.open("rb") as file:
            file.seek(self.position)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self.position += len(whole)
        found = []
        for line in whole.decode(errors="replace").splitlines():
            cpu, wall, faults, callback = line.split(" ", 3)
            found.append(Hold(float(cpu), float(wall), int(faults), callback))
        return found

    def longest(self) -> Hold:
        """The one with most CPU time since the last call, with the longest wall time of all of them."""
        new = self.new()
        turn = max([hold.cpu_ms for hold in new if hold.callback == TURN], default=0.0)
        held = [hold for hold in new if hold.callback != TURN]
        if not held:
            return Hold(turn_ms=turn)
        worst = max(held, key=lambda hold: hold.cpu_ms)
        wall = max(hold.wall_ms for hold in held)
        return Hold(worst.cpu_ms, wall, worst.faults, worst.callback, turn)

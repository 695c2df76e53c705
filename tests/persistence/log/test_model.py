"""The log against its model, the moves chosen by hypothesis and by seeds."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from amqp_router.protocol.flags import ACK, DEAD_LETTER, DROP, EXPIRE, REJECT, RETURN
from persistence.options import LogOptions
from tests.persistence.log.model import ends, writing
from tests.persistence.log.model.ends import FAULTS, OFF_US
from tests.persistence.log.model.walk import MIXES, walk
from tests.persistence.log.model.world import LOGS, World
from tests.persistence.log.sizes import OPTIONS, ROOMY
from tests.seeds import first_seeds

NUMBERS = st.integers(0, LOGS - 1)


class LogMachine(RuleBasedStateMachine):
    """``World`` with hypothesis at the wheel, so that what it finds is shrunk."""

    @initialize(options=st.sampled_from((OPTIONS, ROOMY)))
    def begin(self, options: LogOptions) -> None:
        self.world = World(options)

    @rule(number=NUMBERS, count=st.integers(1, 5), size=st.sampled_from((1, 30, 200, 800)))
    def append(self, number: int, count: int, size: int) -> None:
        writing.append(self.world, number, count, size)

    @rule(number=NUMBERS)
    def reserve(self, number: int) -> None:
        writing.reserve(self.world, number)

    @rule(
        number=NUMBERS,
        first=st.integers(0, 40),
        count=st.integers(1, 8),
        kind=st.sampled_from((ACK, REJECT, EXPIRE, DROP, DEAD_LETTER, RETURN)),
    )
    def settle(self, number: int, first: int, count: int, kind: int) -> None:
        writing.settle(self.world, number, first, count, kind)

    @rule(number=NUMBERS, keep_every=st.integers(0, 3))
    def purge(self, number: int, keep_every: int) -> None:
        writing.purge(self.world, number, keep_every)

    @rule(number=NUMBERS)
    def read(self, number: int) -> None:
        self.world.read(number)

    @rule()
    def tick(self) -> None:
        self.world.tick()

    @rule()
    def work(self) -> None:
        self.world.work()

    @rule()
    def hear(self) -> None:
        self.world.hear()

    @rule()
    def settle_down(self) -> None:
        self.world.settle_down()

    @rule(seconds=st.sampled_from((0.02, 0.3, 1.5, 61.0)))
    def wait(self, seconds: float) -> None:
        self.world.wait(seconds)

    @rule(number=NUMBERS)
    def delete(self, number: int) -> None:
        writing.delete(self.world, number)

    @rule(number=NUMBERS, share=st.floats(0, 1))
    def truncate(self, number: int, share: float) -> None:
        writing.truncate(self.world, number, share)

    @rule(
        operation=st.sampled_from(FAULTS),
        after=st.integers(0, 3),
        error=st.sampled_from((5, 28)),
    )
    def fail(self, operation: str, after: int, error: int) -> None:
        ends.fail(self.world, operation, after, error)

    @rule(operation=st.sampled_from(("sync", "write")), after=st.integers(0, 3), seed=st.integers(0, 1 << 20))
    def crash_failing(self, operation: str, after: int, seed: int) -> None:
        ends.crash_failing(self.world, operation, after, 5, seed)

    @rule(number=NUMBERS, seed=st.integers(0, 1 << 20))
    def open_badly(self, number: int, seed: int) -> None:
        ends.open_badly(self.world, number, Random(seed))

    @rule()
    def restart(self) -> None:
        ends.restart(self.world)

    @rule(off_us=st.sampled_from(OFF_US), clean=st.booleans())
    def jump(self, off_us: int, clean: bool) -> None:
        ends.jump(self.world, off_us, clean=clean)

    @rule()
    def kill(self) -> None:
        ends.kill(self.world)

    @rule(seed=st.integers(0, 1 << 20), steps=st.integers(-1, 24))
    def crash(self, seed: int, steps: int) -> None:
        ends.crash(self.world, seed, steps)

    @rule(seed=st.integers(0, 1 << 20), steps=st.integers(0, 7))
    def crash_at_start(self, seed: int, steps: int) -> None:
        ends.crash_at_start(self.world, seed, steps)


LogMachine.TestCase.settings = settings(
    max_examples=40,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestLogMachine = LogMachine.TestCase


def test_random_walks() -> None:
    total: Counter[str] = Counter()
    for seed in first_seeds(20 * len(MIXES)):
        total += walk(seed, 150).moves
    for move, count in sorted(total.items()):
        print(f"{count:8} {move}")
    for event in ("create .journal", "unlink .log", "rename checkpoint", "rename .log"):
        assert total[f"({event})"] > 0, f"the walks never reached: {event}"
    for move in ("flush", "flush by the journal", "a log cannot be opened", "jump forth", "jump back"):
        assert total[move] > 0, f"the walks never reached: {move}"

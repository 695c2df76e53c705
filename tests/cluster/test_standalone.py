"""The coordinator of a node that is alone, and the epochs that rise with each start."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from amqp_router.cluster.ports import (
    Conflict,
    Create,
    Done,
    Entry,
    NodeIdentity,
    QueueState,
    Registry,
    Remove,
    Replace,
    Unknown,
)
from amqp_router.cluster.standalone import BootsDamaged, StandaloneQueues, StandaloneRegistry, count_boot
from persistence.files import RealDisk
from tests.persistence.log.simdisk import SimDisk


class Loop:
    """Runs what is posted when told to."""

    def __init__(self) -> None:
        self.posted: list[Callable[[], None]] = []

    def run(self) -> None:
        while self.posted:
            self.posted.pop(0)()


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def registry(loop: Loop) -> StandaloneRegistry:
    return StandaloneRegistry("session-1", loop.posted.append)


def written(loop: Loop, registry: Registry, *operations: Any) -> Any:
    answers: list[Any] = []
    registry.write(operations, answers.append)
    assert answers == []  # never from within the call
    loop.run()
    return answers[0]


def read(loop: Loop, registry: Registry, path: str) -> Any:
    answers: list[Any] = []
    registry.read(path, answers.append)
    loop.run()
    return answers[0]


def children(loop: Loop, registry: Registry, path: str) -> Any:
    answers: list[Any] = []
    registry.children(path, answers.append)
    loop.run()
    return answers[0]


def test_create_read_replace_remove(loop: Loop, registry: StandaloneRegistry) -> None:
    assert written(loop, registry, Create("/a", b"1")) == Done()
    assert read(loop, registry, "/a") == Entry(b"1", 0)
    assert written(loop, registry, Replace("/a", b"2", 0)) == Done()
    assert read(loop, registry, "/a") == Entry(b"2", 1)
    assert written(loop, registry, Remove("/a", 1)) == Done()
    assert read(loop, registry, "/a") is None


def test_another_version_is_a_conflict_that_shows_what_is_there(
    loop: Loop, registry: StandaloneRegistry
) -> None:
    written(loop, registry, Create("/a", b"1"), Replace("/a", b"2", 0))
    current = Entry(b"2", 1)
    for operation in (
        Replace("/a", b"3", 0),
        Remove("/a", 0),
        Create("/a", b"3"),
    ):
        assert written(loop, registry, operation) == Conflict("/a", current)
    assert read(loop, registry, "/a") == current


def test_what_is_not_there_is_a_conflict(loop: Loop, registry: StandaloneRegistry) -> None:
    for operation in (Replace("/a", b"", 0), Remove("/a", 0)):
        assert written(loop, registry, operation) == Conflict("/a", None)
    assert written(loop, registry, Create("/a/b", b"")) == Conflict("/a", None)


def test_several_operations_all_or_none(loop: Loop, registry: StandaloneRegistry) -> None:
    written(loop, registry, Create("/a", b"1"), Create("/b", b"1"), Create("/e", b"", ephemeral=True))
    outcome = written(
        loop,
        registry,
        Replace("/a", b"2", 0),
        Replace("/a", b"3", 1),  # sees the write before it
        Create("/a/x", b""),
        Remove("/b", 0),
        Remove("/e", 0),
        Create("/c", b""),
        Remove("/d", 0),
    )
    assert outcome == Conflict("/d", None)
    assert read(loop, registry, "/a") == Entry(b"1", 0)
    assert read(loop, registry, "/b") == Entry(b"1", 0)
    assert read(loop, registry, "/c") is None
    assert children(loop, registry, "/a") == []
    registry.close()
    assert registry.get("/e") is None  # it was ephemeral still


def test_children_in_order(loop: Loop, registry: StandaloneRegistry) -> None:
    assert children(loop, registry, "/q") == []
    written(
        loop, registry, Create("/q", b""), Create("/q/b", b""), Create("/q/a", b""), Create("/q/a/z", b"")
    )
    assert children(loop, registry, "/q") == ["a", "b"]
    assert written(loop, registry, Remove("/q", 0)) == Conflict("/q", Entry(b"", 0))
    written(loop, registry, Remove("/q/b", 0))
    assert children(loop, registry, "/q") == ["a"]
    assert children(loop, registry, "/") == ["q"]


def test_ephemeral_entries_go_with_the_session(loop: Loop, registry: StandaloneRegistry) -> None:
    written(loop, registry, Create("/brokers", b""), Create("/brokers/n1", b"x", ephemeral=True))
    assert written(loop, registry, Create("/brokers/n1/x", b"")) == Conflict("/brokers/n1", Entry(b"x", 0))
    registry.close()
    assert registry.get("/brokers/n1") is None
    assert registry.get("/brokers") is not None
    assert isinstance(written(loop, registry, Create("/z", b"")), Unknown)
    assert isinstance(read(loop, registry, "/z"), Unknown)
    assert isinstance(children(loop, registry, "/"), Unknown)


@pytest.mark.parametrize("applied", [False, True])
def test_a_lost_answer_leaves_the_outcome_unknown(
    loop: Loop, registry: StandaloneRegistry, applied: bool
) -> None:
    registry.lose_answer(applied=applied)
    assert isinstance(written(loop, registry, Create("/a", b"mine")), Unknown)
    assert read(loop, registry, "/a") == (Entry(b"mine", 0) if applied else None)
    assert written(loop, registry, Create("/b", b"")) == Done()


def test_queue_state_travels_as_bytes() -> None:
    state = QueueState("n@h", "boot", 7, ("n@h", "m@h"))
    assert QueueState.decode(state.encode()) == state


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b"7", b'{"leader": "x", "leader_boot": "y", "epoch": 1}']
)
def test_other_bytes_are_no_queue_state(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  the class is the contract
        QueueState.decode(data)


def test_every_start_leads_in_a_new_epoch(tmp_path: Path, loop: Loop) -> None:
    epochs: list[int] = []
    for start in range(3):
        boot = count_boot(RealDisk(), str(tmp_path))
        node = NodeIdentity("n@h", "store", f"boot-{start}")
        registry = StandaloneRegistry("session", loop.posted.append)
        queues = StandaloneQueues(registry, node, boot)
        state = queues.lead("inc-1", epochs[-1] + 1 if epochs else 1)
        assert (state.leader, state.leader_boot, state.isr) == ("n@h", f"boot-{start}", ("n@h",))
        entry = read(loop, registry, "/queues/inc-1")
        assert QueueState.decode(entry.data) == state
        epochs.append(state.epoch)
    assert epochs == [1, 2, 3]


@pytest.mark.parametrize("seed", range(20))
def test_a_start_that_was_counted_stays_counted(seed: int) -> None:
    disk = SimDisk()
    disk.make_directory("d")
    disk.sync_directory("")
    for start in (1, 2, 3):
        assert count_boot(disk, "d") == start
        disk.power_loss(Random(seed))


def test_a_log_that_is_ahead_of_the_count_sets_the_epoch(tmp_path: Path, loop: Loop) -> None:
    registry = StandaloneRegistry("session", loop.posted.append)
    queues = StandaloneQueues(registry, NodeIdentity("n@h", "s", "b"), count_boot(RealDisk(), str(tmp_path)))
    assert queues.lead("copied", 41).epoch == 41
    assert queues.lead("new").epoch == 1
    for incarnation, epoch in (("copied", 41), ("new", 1)):
        state = QueueState.decode(read(loop, registry, f"/queues/{incarnation}").data)
        assert state == QueueState("n@h", "b", epoch, ("n@h",))
    queues.forget("new")
    assert children(loop, registry, "/queues") == ["copied"]


def test_the_state_of_many_queues_is_encoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[QueueState] = []
    encode = QueueState.encode
    monkeypatch.setattr(QueueState, "encode", lambda state: [encoded.append(state), encode(state)][1])
    registry = StandaloneRegistry("session", list[Any]().append)
    queues = StandaloneQueues(registry, NodeIdentity("n@h", "s", "b"), 7)
    states = [queues.lead(f"queue {number}", number // 100) for number in range(799)]
    assert states == [QueueState("n@h", "b", 7, ("n@h",))] * 799
    assert len(encoded) == 1


@pytest.mark.parametrize(
    "content", [b"", b"{", b"{}", b"[]", b"[" * 100_000, b'{"boots": 0}', b'{"boots": "1"}']
)
def test_a_damaged_count_of_starts_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "boots.json").write_bytes(content)
    with pytest.raises(BootsDamaged, match=r"boots\.json"):
        count_boot(RealDisk(), str(tmp_path))
    assert (tmp_path / "boots.json").read_bytes() == content

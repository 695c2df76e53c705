"""The store against dictionaries, over changes, restarts and readers."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from persistence.definitions import Accepted, Change, Conflict, Row
from tests.persistence.definitions.support import CHANGES, Loop, applied, started, wait


class StoreMachine(RuleBasedStateMachine):
    """``states[rev]`` is all rows as of that rev, ``log`` the changes that led there."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.states: list[dict[object, Row]] = [{}]
        self.log: list[tuple[int, tuple[Change, ...]]] = []
        self.start()

    def start(self) -> None:
        self.loop = Loop()
        self.store = started(self.directory / "definitions.db", self.loop)
        self.told = self.store.committed
        self.store.on_committed = self.committed

    def committed(self, rev: int) -> None:
        assert self.told < rev <= self.store.rev
        self.told = rev

    def accept(self, rev: int, changes: list[Change]) -> None:
        assert rev == len(self.states)
        state = dict(self.states[-1])
        for change in changes:
            applied(state, change)
        self.states.append(state)
        self.log.append((rev, tuple(changes)))

    @rule(changes=st.lists(CHANGES, max_size=5))
    def submit(self, changes: list[Change]) -> None:
        rev = self.store.submit(changes)
        if changes:
            self.accept(rev, changes)
        else:
            assert rev == 0

    @rule(changes=st.lists(CHANGES, min_size=1, max_size=2), behind=st.integers(0, 2))
    def commit(self, changes: list[Change], behind: int) -> None:
        outcome = self.store.commit(changes, self.store.rev - behind)
        if behind:
            assert outcome == Conflict(len(self.log))
        else:
            assert outcome == Accepted(len(self.states))
            self.accept(outcome.rev, changes)

    @rule()
    def wait(self) -> None:
        wait(self.store, self.loop, len(self.log))
        assert self.told == len(self.log)

    @rule()
    def read(self) -> None:
        committed = self.store.committed
        snapshot = self.store.snapshot()
        assert committed <= snapshot.rev <= len(self.log)
        rows = list(snapshot.rows())
        assert len(set(rows)) == len(rows)
        assert set(rows) == set(self.states[snapshot.rev].values())

    @rule(data=st.data())
    def since(self, data: st.DataObject) -> None:
        rev = data.draw(st.integers(0, len(self.log)))
        found = self.store.since(rev)
        assert found == self.log[rev : rev + len(found)]
        assert rev + len(found) >= self.store.committed

    @rule()
    def restart(self) -> None:
        self.store.flush_and_stop()
        assert self.told == len(self.log)
        self.start()
        assert self.store.rev == self.store.committed == len(self.log)
        self.read()

    @invariant()
    def committed_never_passes_what_was_submitted(self) -> None:
        assert self.store.committed <= self.store.rev == len(self.log)

    def teardown(self) -> None:
        self.store.flush_and_stop()
        shutil.rmtree(self.directory)


TestStore = StoreMachine.TestCase
TestStore.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)

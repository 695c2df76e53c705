"""The settle state against a set of offsets."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from amqp_router.protocol.flags import RETURN
from persistence.log.format.bitmaps import CHUNK_BYTES, CHUNK_OFFSETS, packed
from persistence.log.format.checkpoint import LogState, pack_log, unpack_log
from persistence.log.format.record import SETTLE_SIZE, iterate_settles
from persistence.log.format.settles import SettleState

END = 3 * CHUNK_OFFSETS
#: Around borders of bytes and chunks.
OFFSETS = st.one_of(
    st.integers(0, 40),
    st.integers(CHUNK_OFFSETS - 20, CHUNK_OFFSETS + 20),
    st.integers(2 * CHUNK_OFFSETS - 10, 2 * CHUNK_OFFSETS + 10),
    st.integers(END - 10, END - 1),
)
RUNS = st.tuples(OFFSETS, OFFSETS).map(sorted)


@settings(deadline=None)
@given(st.lists(st.one_of(OFFSETS, RUNS), max_size=30), st.lists(OFFSETS, max_size=5))
def test_settling_in_any_order(moves: list[int | list[int]], returned: list[int]) -> None:
    state = SettleState()
    state.live = END
    done: set[int] = set()
    for move in moves:
        if isinstance(move, int):
            assert state.settle(move) == (move not in done)
            done.add(move)
        else:
            first, end = move
            fresh = set(range(first, end)) - done
            assert state.settle_range(first, end) == len(fresh)
            done |= fresh
        state.advance(END)
    counts = {}
    for offset in returned:
        times = 300 if offset % 5 else 1
        state.set_returned(offset, times)
        if offset not in done:
            counts[offset] = times
    assert state.live == END - len(done)
    assert state.unsettled_in(0, END) == END - len(done)
    for offset in [*range(50), *range(CHUNK_OFFSETS - 25, CHUNK_OFFSETS + 25), END - 1]:
        assert state.is_settled(offset) == (offset in done)
        following = state.next_unsettled(offset, END)
        assert following == END or following not in done
        assert all(o in done for o in range(offset, min(following, offset + 200)))
    count, packed = state.pack_returns()
    assert len(packed) == count * SETTLE_SIZE
    runs = list(iterate_settles(packed, SETTLE_SIZE, count))
    assert {run.kind for run in runs} <= {RETURN}
    assert {o: run.returns for run in runs for o in range(run.first, run.first + run.count)} == counts
    for run, after in pairwise(runs):
        end = run.first + run.count
        assert end < after.first or (end == after.first and run.returns != after.returns)
    assert all(offset in done for offset in range(state.settled_below))


@given(st.lists(OFFSETS, max_size=8))
def test_returns_are_counted_wherever_they_come(returned: list[int]) -> None:
    state = SettleState()
    counts: dict[int, int] = {}
    for times, offset in enumerate(returned, 1):
        state.set_returned(offset, times)
        counts[offset] = times
        others = [offset - 1, offset + 1, offset ^ 64, END - 1]
        for each in [each for each in [*counts, *others] if 0 <= each < END]:
            assert state.returned(each) == counts.get(each, 0)


def test_few_returns_take_little_room() -> None:
    """A log with some returned messages does not have room for 65,536 of them."""
    state = SettleState()
    for offset in range(10):
        state.set_returned(offset, 1)
    chunk = state.chunks[0]
    assert chunk.counts is not None
    assert len(chunk.counts) <= 64
    state.set_returned(CHUNK_OFFSETS - 1, 1)
    assert len(chunk.counts) == 2 * CHUNK_OFFSETS
    assert state.pack_returns()[0] == 2


def test_few_messages_take_little_room() -> None:
    """A log has no room for 65,536 settles before it had so many messages; nor has its checkpoint."""
    state = LogState("a" * 32, 0)
    settles = state.settles
    settles.live = state.recovery_offset = 1000
    for offset in range(1, 900):
        settles.settle(offset)
    assert len(settles.chunks[0].bits) <= 128
    stored = pack_log(state)
    assert len(stored) < 350
    found = unpack_log(stored).settles
    assert len(found.chunks[0].bits) <= 128
    for each in (settles, found):
        assert [offset for offset in range(1000) if not each.is_settled(offset)] == [0, *range(900, 1000)]
        assert each.next_unsettled(1, 1000) == 900
        assert each.next_unsettled(999, CHUNK_OFFSETS + 5) == 999
        assert each.unsettled_in(0, 1000) == each.live == 101
    assert found.settle(CHUNK_OFFSETS - 1) == 1
    assert found.is_settled(CHUNK_OFFSETS - 1)
    assert len(found.chunks[0].bits) == CHUNK_BYTES


@given(st.lists(RUNS, max_size=5), OFFSETS)
def test_checkpoint_keeps_what_is_settled(runs: list[list[int]], end: int) -> None:
    """Whatever the end is."""
    state = LogState("a" * 32, 0)
    state.recovery_offset = END
    for first, stop in runs:
        state.settles.settle_range(first, stop)
    places = [*range(50), *range(CHUNK_OFFSETS - 25, CHUNK_OFFSETS + 25), end, max(end - 1, 0), END - 1]
    whole = [state.settles.is_settled(place) for place in places]
    found = unpack_log(pack_log(state)).settles
    assert [found.is_settled(place) for place in places] == whole
    state.recovery_offset = end
    found = unpack_log(pack_log(state)).settles
    for place, was_settled in zip(places, whole, strict=True):
        assert found.is_settled(place) == (was_settled and place < end)
    assert found.live == found.unsettled_in(0, end)


def test_chunk_before_the_last_has_all_its_bits_in_a_checkpoint() -> None:
    """Earlier releases read it as it is, and look beyond its end."""
    state = SettleState()
    state.settle(5)
    state.settle(CHUNK_OFFSETS + 5)
    first, second = (state.chunks[number] for number in (0, 1))
    assert len(packed(first.bits, CHUNK_OFFSETS + 6)) == CHUNK_BYTES
    assert packed(second.bits, 6) == b"\x20"


def test_consumed_in_order_keeps_one_chunk() -> None:
    state = SettleState()
    for offset in range(2 * CHUNK_OFFSETS):
        state.live += 1
        state.settle(offset)
        if offset % 1000 == 0:
            state.advance(offset + 1)
    assert len(state.chunks) <= 1
    assert state.live == 0


def test_cut_forgets_what_is_above() -> None:
    state = SettleState()
    state.note_gap(0, CHUNK_OFFSETS + 100)
    state.advance(CHUNK_OFFSETS + 100)
    state.cut(CHUNK_OFFSETS + 10)
    assert state.settled_below == CHUNK_OFFSETS + 10
    assert not state.is_settled(CHUNK_OFFSETS + 10)
    assert state.is_settled(CHUNK_OFFSETS + 9)

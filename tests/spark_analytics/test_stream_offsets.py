"""The offsets of streams as JSON, and how a batch is shared among logs."""

from __future__ import annotations

import json
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spark_analytics import CheckpointError, stream_offsets
from spark_analytics.stream_offsets import LogKey, Positions, StreamOffsets, check_nodes, parse_offsets

A, B = LogKey("n1/aa", 0), LogKey("n1/bb", 0)
keys = st.builds(LogKey, st.sampled_from(["n1/aa", "n1/bb", "n2/aa"]), st.integers(0, 11))
positions = st.dictionaries(keys, st.integers(0, 2**62), max_size=8)


def test_as_text() -> None:
    offsets = StreamOffsets("messages", {LogKey("n/b", 10): 3, LogKey("n/b", 9): 2, LogKey("n/a", 0): 1})
    assert json.dumps(offsets.to_json()) == (
        '{"offsets": {"n/a": {"0": 1}, "n/b": {"10": 3, "9": 2}}, "table": "messages", "version": 1}'
    )
    first = StreamOffsets("routing", {A: 5}, {A: 7}, is_initial=True)
    assert json.dumps(first.to_json()) == (
        '{"holes": {"n1/aa": {"0": 7}}, "offsets": {"n1/aa": {"0": 5}}, "initial": true, '
        '"table": "routing", "version": 1}'
    )
    end = StreamOffsets("routing", {A: 9}, began=({A: 5}, {A: 7}))
    assert json.dumps(end.to_json()) == (
        '{"began": {"holes": {"n1/aa": {"0": 7}}, "offsets": {"n1/aa": {"0": 5}}}, '
        '"offsets": {"n1/aa": {"0": 9}}, "table": "routing", "version": 1}'
    )


@given(positions, positions, st.booleans(), st.none() | st.tuples(positions, positions))
def test_there_and_back(
    offsets: Positions, holes: Positions, is_initial: bool, began: tuple[Positions, Positions] | None
) -> None:
    there = StreamOffsets("routing", offsets, holes, is_initial, began)
    assert parse_offsets(json.loads(json.dumps(there.to_json())), "routing") == there
    turned = StreamOffsets("routing", dict(reversed(offsets.items())), holes, is_initial, began)
    assert json.dumps(turned.to_json()) == json.dumps(there.to_json())


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"version": 2, "table": "routing"}, "its offsets have version 2, this release knows version 1"),
        ({"version": 1, "table": "messages"}, "it is of table 'messages', and this stream reads 'routing'"),
        ({"topic": {"0": 5}}, "its offsets are not those of a stream of amqp_router"),
        (7, "its offsets are not those of a stream of amqp_router"),
        ({"version": 1, "table": "routing"}, "its offsets are damaged"),
        ({"version": 1, "table": "routing", "offsets": {"n/a": {"0": -1}}}, "its offsets are damaged"),
        ({"version": 1, "table": "routing", "offsets": {"n/a": {"0": "5"}}}, "its offsets are damaged"),
        ({"version": 1, "table": "routing", "offsets": {"aa": {"0": 5}}}, "its offsets are damaged"),
        ({"version": 1, "table": "routing", "offsets": {"n/a": {"x": 5}}}, "its offsets are damaged"),
        ({"version": 1, "table": "routing", "offsets": {}, "began": []}, "its offsets are damaged"),
    ],
)
def test_a_checkpoint_that_does_not_fit(document: Any, text: str) -> None:
    with pytest.raises(CheckpointError) as error:
        parse_offsets(document, "routing")
    assert str(error.value).startswith(f"this checkpoint cannot be used: {text}")
    assert str(error.value).endswith("; name another checkpointLocation")


def test_a_checkpoint_of_another_directory() -> None:
    check_nodes({A: 1}, {"n1"})
    with pytest.raises(
        CheckpointError, match=r"it has log aa of node n1, which is not among .*nodes: n2, n3"
    ):
        check_nodes({A: 1}, {"n3", "n2"})


def test_the_first_batch_again() -> None:
    began = StreamOffsets("routing", {A: 3}, is_initial=True)
    end = StreamOffsets("routing", {A: 9, B: 4}, began=({A: 3}, {}))
    assert stream_offsets.ranges(began, end) == {A: (3, 9), B: (0, 4)}
    later = StreamOffsets("routing", {A: 8, B: 2}, is_initial=True)
    assert stream_offsets.ranges(later, end) == {A: (3, 9), B: (0, 4)}
    after = StreamOffsets("routing", {A: 9, B: 5})
    assert stream_offsets.ranges(end, after) == {B: (4, 5)}
    with pytest.raises(CheckpointError, match="ends at 9, before 11"):
        stream_offsets.ranges(StreamOffsets("routing", {A: 11}), end)


# --- the batches of a stream cover every log exactly, once -------------------------------------------------
#: Steps of a stream: how much each log grows before a batch, and the batch's limit.
growth = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 40), max_size=8)
histories = st.lists(st.tuples(growth, st.none() | st.integers(1, 30)), min_size=1, max_size=12)


def cover(module: Any, history: list[tuple[dict[str, int], int | None]]) -> None:
    """Let logs grow and take batches until all is read; each offset must be in one batch."""
    ends: Positions = {}
    start = StreamOffsets("routing", {}, is_initial=True)
    read: dict[LogKey, list[int]] = {}
    rest: list[tuple[dict[str, int], int | None]] = [({}, None)]
    for grown, limit in history + rest:
        for name, count in grown.items():
            key = LogKey(f"n/{name}", 0)
            ends[key] = ends.get(key, 0) + count
        sizes = {key: end - start.offsets.get(key, 0) for key, end in ends.items()}
        sizes = {key: size for key, size in sizes.items() if size}
        given_ = module.shares(sizes, limit)
        assert set(given_) <= set(sizes)
        if limit is not None:
            assert sum(given_.values()) == min(limit, sum(sizes.values())), "the limit is not used"
            assert limit < len(sizes) or all(given_.values()), "a log waits behind others"
        offsets = {key: start.offsets.get(key, 0) + given_.get(key, 0) for key in ends}
        end = StreamOffsets("routing", {key: offset for key, offset in offsets.items() if offset})
        for key, (low, high) in module.ranges(start, end).items():
            read.setdefault(key, []).extend(range(low, high))
        start = end
    for key, end_ in ends.items():
        assert read.get(key, []) == list(range(end_)), key


@given(histories)
@example([({"a": 3, "b": 3}, 2), ({"b": 5}, 3)])
def test_every_offset_once(history: list[tuple[dict[str, int], int | None]]) -> None:
    cover(stream_offsets, history)


PLANTED = [
    ("found[key] = low, high", "found[key] = max(low - 1, 0), high"),
    ("low = offsets.get(key, 0)", "low = offsets.get(key, high)"),
    ("given[key] += 1", "given[key] += 2"),
    ("least = 1 if", "least = 0 if"),
]


@pytest.mark.parametrize(("line", "bug"), PLANTED)
def test_planted_bugs_are_found(line: str, bug: str) -> None:
    path = Path(stream_offsets.__file__)
    source = path.read_text()
    assert source.count(line) == 1
    module = types.ModuleType(stream_offsets.__name__)
    module.__dict__["__package__"] = stream_offsets.__package__
    bad: Callable[[list[tuple[dict[str, int], int | None]]], None] = given(histories)(
        lambda history: cover(module, history)
    )
    with pytest.MonkeyPatch.context() as patch:
        import sys

        patch.setitem(sys.modules, stream_offsets.__name__, module)
        exec(compile(source.replace(line, bug), str(path), "exec"), module.__dict__)
        with pytest.raises((AssertionError, KeyError)):
            bad()  # type: ignore[call-arg]

"""What only some messages of a batch have, and which letters a log has taken."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_router.protocol.message import Extras, Message, build_message
from persistence.errors import CorruptLog
from persistence.log.format import sources
from persistence.log.format.messages import BatchView, MessagesBuilder, live_batch
from persistence.log.format.record import HEADER_SIZE, Batch, parse_header
from persistence.log.format.sections import pack_sections, parse_sections
from persistence.log.format.settles import SettleState
from persistence.log.format.sources import (
    OLD_RUN,
    has_source,
    note_source,
    pack_sources,
    unpack_old_sources,
    unpack_sources,
)
from persistence.options import LogOptions
from tests.persistence.log.simdisk import SimDisk
from tests.persistence.log.support import PROPERTIES, Node

SALT = 0x12345678
LOG = bytes(range(16))
FIELDS = (
    "source",
    "source_partition",
    "source_epoch",
    "source_offset",
    "due_us",
    "session",
    "channel",
    "sequence",
)


def extras(**values: Any) -> Extras:
    found = Extras()
    for name, value in values.items():
        setattr(found, name, value)
    return found


def values(found: Extras | None) -> tuple[Any, ...]:
    found = found or Extras()
    return tuple(getattr(found, name) for name in FIELDS)


def letter(offset: int, **values: Any) -> Extras:
    return extras(**{"source": LOG, "source_epoch": 7, "source_offset": offset} | values)


LETTERS = st.fixed_dictionaries(
    {
        "source": st.binary(min_size=16, max_size=16),
        "source_partition": st.integers(0, 3),
        "source_epoch": st.integers(0, (1 << 32) - 1),
        "source_offset": st.integers(0, (1 << 64) - 1),
    }
)
DUE = st.fixed_dictionaries({"due_us": st.integers(1, 1 << 62)})
PUBLISHES = st.fixed_dictionaries(
    {"session": st.integers(1, 2), "channel": st.integers(0, 1), "sequence": st.integers(0, 5)}
)
SOME = st.builds(lambda *parts: extras(**{k: v for part in parts for k, v in part.items()}),
                 LETTERS | st.just({}), DUE | st.just({}), PUBLISHES | st.just({}))  # fmt: skip


def batch_of(each: list[Extras | None], bodies: bytes = b"body") -> tuple[list[Message], Batch]:
    builder = MessagesBuilder()
    builder.begin(10, 1000)
    messages = []
    for number, found in enumerate(each):
        made = build_message(b"\x00\x01q", PROPERTIES, bodies)
        made.extras = found
        made.offset = 10 + 2 * number
        builder.add(made, made.offset, 1000 + number)
        messages.append(made)
    return messages, builder.close(10 + 2 * len(each), 7)


def packed(batch: Batch) -> bytes:
    data = b"".join([batch.pack_header(0, SALT), *batch.pieces])
    assert len(data) == batch.length
    return data


@given(st.lists(SOME | st.none(), min_size=1, max_size=12), st.data())
def test_what_some_messages_have_comes_back(each: list[Extras | None], data: st.DataObject) -> None:
    messages, batch = batch_of(each)
    view = BatchView()
    view.open_pieces(batch)
    assert [values(_at(view, made)) for made in messages] == [values(found) for found in each]
    octets = packed(batch)
    header = parse_header(octets, 0, SALT)
    assert header is not None
    view.open_data(octets, 0, header)
    assert [values(_at(view, made)) for made in messages] == [values(found) for found in each]
    state = SettleState()
    settled = data.draw(st.sets(st.sampled_from(range(len(each)))))
    for number in settled:
        state.settle(messages[number].offset)
    cleaned = live_batch(header, octets[HEADER_SIZE:], state, 5)
    view.open_pieces(cleaned)
    left = [number for number in range(len(each)) if number not in settled]
    assert [values(_at(view, messages[number])) for number in left] == [values(each[n]) for n in left]
    assert len(packed(cleaned)) == cleaned.length


def _at(view: BatchView, made: Message) -> Extras | None:
    found = view.message_at(made.offset)
    assert found is not None
    assert found.body() == b"body"
    return found.extras


def test_a_batch_without_them_is_not_longer() -> None:
    _, batch = batch_of([None] * 3)
    assert batch.attributes == 0
    assert len(batch.pieces) == 4
    assert batch.length == HEADER_SIZE + 3 * (32 + len(PROPERTIES) + 4) + 3


def test_sequences_that_follow_one_another_are_one_run() -> None:
    numbers = [7, 8, 9, 12]
    attributes, data = pack_sections(
        [(record, extras(session=1, channel=2, sequence=sequence)) for record, sequence in enumerate(numbers)]
    )
    assert (attributes, len(data)) == (0x100, 4 + 2 * 32)
    found = parse_sections(attributes, data, 4)
    assert [found[record].sequence for record in range(4)] == numbers


@pytest.mark.parametrize(
    ("attributes", "data", "text"),
    [
        (0x840, b"", "attributes 0x800 are not known"),
        (0x40, b"", "cut short"),
        (0x40, b"\x21\0\0\0" + bytes(33), "cut short"),
        (0x40, b"\x20\0\0\0\x01" + bytes(31), "not there"),
        (0x40, b"\x20\0\0\0" + bytes(33), "do not fit"),
        (0x200, b"\x27\0\0\0" + bytes(39), "cut short"),
        (0x200, b"\x28\0\0\0\x01" + bytes(39), "not there"),
        (0x100, b"\x20\0\0\0" + bytes(4) + b"\x02" + bytes(27), "not there"),
    ],
)
def test_a_section_that_is_none_is_refused(attributes: int, data: bytes, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        parse_sections(attributes, data, 1)


@pytest.mark.parametrize("size", [10, 3 << 20])
def test_a_letter_in_the_log(size: int) -> None:
    """Read from memory and from disk, small and large; recognised after a restart of either kind."""
    node = Node(options=LogOptions())
    log = node.catalog.create("a", "/", "q", {})
    made = build_message(b"\x00\x01q", PROPERTIES, b"x" * size)
    made.extras = letter = extras(source=LOG, source_epoch=3, source_offset=5, due_us=99)
    made.flags = 1
    log.append(made, 1)
    assert values(log.read_one(made.offset).extras) == values(letter)
    node.settle()
    assert log.taken.has_letter(letter)
    log.request_checkpoint()
    node.settle()
    for clean in (False, True, False):
        found = Node(node.disk)
        log = found.catalog.open("a")
        message = log.read_one(made.offset)
        assert message.body() == b"x" * size
        assert values(message.extras) == values(letter)
        assert log.taken.has_letter(letter)
        assert not log.taken.has_letter(extras(source=LOG, source_epoch=3, source_offset=6))
        assert not log.taken.has_letter(extras(source=LOG, source_epoch=4, source_offset=5))
        if clean:
            found.catalog.stop()


@pytest.mark.parametrize("size", [10, 3 << 20])
def test_a_time_to_live_above_49_days_survives_a_start(size: int) -> None:
    """A queue's TTL of a year ended after 49.7 days for what was read back from its log."""
    node = Node(options=LogOptions())
    log = node.catalog.create("a", "/", "q", {})
    made = build_message(b"\x00\x01q", PROPERTIES, b"x" * size)
    made.flags = 1
    now_us = 5_000_000
    made.deadline_us = deadline_us = now_us + 365 * 86_400_000_000
    log.append(made, now_us)
    node.settle()
    assert log.read_one(made.offset).deadline_us == deadline_us
    for _ in range(2):
        node = Node(node.disk)
        message = node.catalog.open("a").read_one(made.offset)
        assert (message.deadline_us, message.extras) == (deadline_us, None)
        assert message.body() == b"x" * size


def test_a_large_letter_whose_section_is_damaged() -> None:
    node = Node(options=LogOptions())
    log = node.catalog.create("a", "/", "q", {})
    made = build_message(b"\x00\x01q", PROPERTIES, b"x" * (3 << 20))
    made.extras = extras(source=LOG, source_offset=5)
    made.flags = 1
    log.append(made, 1)
    node.settle()
    disk = node.disk
    assert isinstance(disk, SimDisk)
    file = disk.open(log.partition.active.path, write=True)
    end = file.size()
    file.write([b"\xff"], end - 1)
    file.close()
    log.reader.forget()
    content = log.read_one(made.offset).content
    assert content is not None
    for index in range(len(content) - 1):
        content[index]
    with pytest.raises(CorruptLog, match="checksum"):
        content[len(content) - 1]


def test_the_letters_of_a_log_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "RUNS_MAX", 3)
    runs: sources.Runs = {}
    for offset in (1, 2, 3, 10, 20, 4):
        note_source(runs, letter(offset), 1000 + offset)
    assert [(first, key[3]) for key, (first, _) in runs.items()] == [(10, 11), (20, 21), (1, 5)]
    assert [has_source(runs, letter(offset)) for offset in (0, 1, 4, 5, 10)] == [
        False,
        True,
        True,
        False,
        True,
    ]
    assert not has_source(runs, letter(10, source_partition=1))
    assert not has_source(runs, letter(10, source_epoch=8))
    note_source(runs, letter(30), 1010)
    assert len(runs) == 3
    note_source(runs, letter(40), 1005 + sources.KEPT_US)
    assert [(first, key[3]) for key, (first, _) in runs.items()] == [(30, 31), (40, 41)]
    now_us = 1011 + sources.KEPT_US
    assert unpack_sources(pack_sources(runs, now_us)) == {(LOG, 0, 7, 41): (40, 1005 + sources.KEPT_US)}


def test_a_letter_that_continues_a_run_of_another_epoch_begins_one() -> None:
    runs: sources.Runs = {}
    note_source(runs, letter(1), 5)
    note_source(runs, letter(2, source_epoch=8), 6)
    assert runs == {(LOG, 0, 7, 2): (1, 5), (LOG, 0, 8, 3): (2, 6)}
    assert unpack_sources(pack_sources(runs, 6)) == runs


def test_letters_of_releases_that_did_not_note_the_epoch() -> None:
    """They are read, from a batch and from a checkpoint, and are never taken for another letter."""
    entry = (0).to_bytes(4, "little") + (1).to_bytes(4, "little") + LOG + (5).to_bytes(8, "little")
    found = parse_sections(0x40, b"\x20\0\0\0" + entry, 1)[0]
    old = extras(source=LOG, source_partition=1, source_offset=5)
    assert values(found) == values(old)
    runs = unpack_old_sources(OLD_RUN.pack(LOG, 1, 3, 4, 1000))
    assert runs == {(LOG, 1, 0, 7): (4, 1000)}
    assert has_source(runs, old)
    assert not has_source(runs, letter(5, source_partition=1))
    attributes, data = pack_sections([(0, old)])  # as cleaning writes it anew
    assert values(parse_sections(attributes, data, 1)[0]) == values(old)

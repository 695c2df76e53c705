"""The decoders against slow ones that do one thing at a time."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp_router.protocol import properties as wire
from amqp_router.protocol.errors import FieldError
from amqp_router.protocol.fields import encode_plain
from amqp_router.protocol.message import Extras, build_message
from persistence.log.format.messages import BatchView, MessagesBuilder
from persistence.log.format.record import parse_header
from persistence.log.routing.layout import names_header, pack_name
from spark_analytics.arrow import read_arrow
from spark_analytics.errors import CorruptLog
from spark_analytics.names import read_names
from spark_analytics.properties import header_texts

from .encoder import (
    ROUTING,
    LogFiles,
    Run,
    Sent,
    batch,
    messages_batch,
    name,
    queue_log,
    routing_batch,
    routing_log,
    settles_batch,
    slow_batches,
    slow_events,
    stamp,
    write_marks,
)

NAMES = [name("flights", "all", "q"), name("", "q"), name("none"), name("grün", "q")]
T0 = 1_700_000_000_000_000
#: More than 32 bits of milliseconds.
YEARS_US = 300_000_000_000_000

runs = st.lists(
    st.builds(
        lambda route, key, dt, count, size, flags: (route, key, dt, count, size, flags),
        st.integers(0, len(NAMES) - 1),
        st.sampled_from([b"", b"a.b", b"UA.EWR.IAH", "schön".encode(), b"\xff\x00"]),
        st.integers(0, 3_000_000),
        st.one_of(st.just(1), st.integers(1, 40)),
        st.sampled_from([0, 200, 0xFFFFFFFF]),
        st.integers(0, 63),
    ),
    min_size=1,
    max_size=12,
)


def micros(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for row in rows:
        row["timestamp"] = round(row["timestamp"].timestamp() * 1_000_000)
    return rows


def write_events(
    log: LogFiles, batches: Sequence[Sequence[tuple[Any, ...]]], *, record_size: int = 24
) -> None:
    now = T0
    for number, records in enumerate(batches):
        made = []
        for route, key, dt, count, size, flags in records:
            now += dt
            made.append(Run(route, key, now, count, size, flags))
        log.append(routing_batch(log.end, made, record_size=record_size))
        if number % 3 == 2:
            log.roll()


@settings(max_examples=40, deadline=None)
@given(st.lists(runs, min_size=1, max_size=7), st.sampled_from([1, 7, 65536]), st.sampled_from([24, 32]))
def test_routing_decoder_agrees_with_the_slow_one(batches: Any, batch_rows: int, record_size: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        data = Path(directory)
        stamp(data)
        (log,) = routing_log(data, "/", NAMES)
        write_events(log, batches, record_size=record_size)
        write_marks(data, [log])
        slow = list(slow_events(log.directory, NAMES))
        columns = list(slow[0])
        fast = micros(read_arrow(data, columns=columns, batchRows=batch_rows).to_pylist())
        assert fast == slow
        # Any part by offset or time is that part.
        third = len(slow) // 3
        ends = {log.directory.parent.name: {0: 2 * third}}
        starts = {log.directory.parent.name: {0: third}}
        part = read_arrow(data, columns=columns, startingOffsets=starts, endingOffsets=ends)
        assert micros(part.to_pylist()) == slow[third : 2 * third]
        low = slow[third]["timestamp"]
        part = read_arrow(data, columns="offset", startingTimestamp=_time(low))
        assert part["offset"].to_pylist() == [row["offset"] for row in slow if row["timestamp"] >= low]
        part = read_arrow(data, columns="offset", endingTimestamp=_time(low), batchRows=batch_rows)
        assert part["offset"].to_pylist() == [row["offset"] for row in slow if row["timestamp"] < low]
        part = read_arrow(data, columns="offset", exchanges="flights,none")
        wanted = [row["offset"] for row in slow if row["exchange"] in ("flights", "none")]
        assert part["offset"].to_pylist() == wanted
        part = read_arrow(data, columns="offset", queues=["all"])
        assert part["offset"].to_pylist() == [row["offset"] for row in slow if "all" in row["queues"]]


def _time(micro: Any) -> Any:
    from datetime import UTC, datetime, timedelta

    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micro)


short_text = st.text(st.characters(codec="utf-8"), max_size=6)
plain_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**40), 2**40), short_text, st.binary(max_size=4)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(short_text, inner, max_size=3)),
    max_leaves=5,
)
PROPERTY_VALUES = {
    "content_type": short_text,
    "content_encoding": short_text,
    "delivery_mode": st.integers(0, 255),
    "priority": st.integers(0, 255),
    "correlation_id": short_text,
    "reply_to": short_text,
    "expiration": short_text,
    "message_id": short_text,
    "timestamp": st.integers(0, 2**33),
    "type": short_text,
    "user_id": short_text,
    "app_id": short_text,
    "cluster_id": short_text,
}


@st.composite
def raw_properties(draw: Any) -> bytes:
    """Properties as clients send them, some of them broken."""
    values = {key: draw(values) for key, values in PROPERTY_VALUES.items() if draw(st.booleans())}
    raw = wire.encode_properties(values)
    if draw(st.booleans()):
        table = encode_plain(draw(st.dictionaries(short_text, plain_values, max_size=3)))
        at = 2
        for key in ("content_type", "content_encoding"):
            at += 1 + raw[at] if key in values else 0
        raw = (int.from_bytes(raw[:2]) | 0x2000).to_bytes(2) + raw[2:at] + table + raw[at:]
    if draw(st.integers(0, 9)) == 0:
        raw = draw(st.one_of(st.just(raw[:-1]), st.binary(min_size=0, max_size=20)))
    return raw


sent = st.builds(
    lambda exchange, key, raw, body, gap, dt, flags, count: (exchange, key, raw, body, gap, dt, flags, count),
    st.sampled_from([b"", b"flights", "grün".encode()]),
    st.sampled_from([b"", b"a.b", b"\xff"]),
    raw_properties(),
    st.binary(max_size=30),
    st.integers(0, 2),
    st.integers(0, 2_000_000),
    st.integers(0, 3),
    st.integers(0, 3),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(sent, min_size=1, max_size=8), min_size=1, max_size=4))
def test_messages_decoder_agrees_with_the_brokers(batches: Any) -> None:
    with tempfile.TemporaryDirectory() as directory:
        data = Path(directory)
        stamp(data)
        log = queue_log(data, "/", "q", "ab" * 16)
        now, offset = T0, 0
        for records in batches:
            made = []
            for exchange, key, raw, body, gap, dt, flags, count in records:
                now, offset = now + dt, offset + gap
                made.append(Sent(offset, now, exchange, key, raw, body, flags, 3, count))
                offset += 1
            log.append(messages_batch(log.end, offset - 1, made))
            log.append(settles_batch(offset, 0, 1, now))
            offset += 1
        write_marks(data, [log])
        columns = [
            *("offset", "timestamp", "exchange", "routing_key", "body_size", "persistent", "redelivered"),
            *("delivery_count", "priority", "properties", "body"),
        ]
        fast = micros(read_arrow(data, table="messages", columns=columns, batchRows=3).to_pylist())
        assert fast == list(_slow_messages(log))
        names = ["properties", "headers", "message_timestamp", *(set(PROPERTY_VALUES) - _NOT_COLUMNS)]
        for row in read_arrow(data, table="messages", columns=names).to_pylist():
            _check_properties(row)


_NOT_COLUMNS = {"priority", "timestamp", "cluster_id"}


def _slow_messages(log: LogFiles) -> Any:
    """By the broker's own reader, one message at a time."""
    data = log.path.read_bytes()
    at = 0
    while at < len(data):
        header = parse_header(data, at, log.salt)
        assert header is not None
        view = BatchView()
        if header.kind == 1:
            view.open_data(data, at, header)
            for number in range(header.records):
                record = at + 72 + 32 * number
                offset = header.base + int.from_bytes(data[record + 16 : record + 20], "little")
                message = view.message_at(offset)
                assert message is not None
                content = message.content if isinstance(message.content, bytes) else b"".join(message.content)
                split = 1 + message.route[0]
                yield {
                    "offset": offset,
                    "timestamp": view.timestamp_us(),
                    "exchange": message.route[1:split].decode("utf-8", "replace"),
                    "routing_key": message.route[split + 1 :].decode("utf-8", "replace"),
                    "body_size": message.body_size,
                    "persistent": bool(data[record + 25] & 1),
                    "redelivered": bool(data[record + 25] & 2),
                    "delivery_count": message.delivery_count,
                    "priority": 3,
                    "properties": content[19 : message.header_size - 1],
                    "body": content[message.header_size + 7 : -1] if message.body_size else b"",
                }
        at += header.length


def _check_properties(row: dict[str, Any]) -> None:
    try:
        expected = wire.decode_properties(row["properties"])
    except FieldError:
        return  # nulls from the broken value on; that it gives rows at all is checked by getting here
    for key in set(PROPERTY_VALUES) - _NOT_COLUMNS:
        value = expected.get(key)
        if isinstance(value, str):
            value = value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        assert row[key] == value, key
    seconds = expected.get("timestamp")
    stamp_ = row["message_timestamp"]
    if seconds is not None and seconds < 2**33:
        assert stamp_ is not None
        assert stamp_.timestamp() == seconds
    if "headers" not in expected:
        assert row["headers"] is None
    else:
        assert row["headers"] is not None
        assert len(row["headers"]) == len(expected["headers"])


def test_where_dead_letters_come_from_and_when_messages_expire(tmp_path: Path) -> None:
    """Batches of the broker's own writer, with optional sections and without."""
    log_id = "ab" * 16
    stamp(tmp_path)
    log = queue_log(tmp_path, "/", "q", log_id)
    for first in (0, 3):
        builder = MessagesBuilder()
        builder.begin(first, T0)
        for offset in range(first, first + 3):
            made = build_message(b"\x00\x01q", b"\0\0", b"%d" % offset)
            if first:
                made.extras = Extras()
                if offset % 2:
                    made.extras.source, made.extras.source_offset = bytes.fromhex("cd" * 16), 70 + offset
                    made.extras.source_epoch = offset if offset == 5 else 0  # 0: an earlier release
                else:
                    made.extras.due_us = T0 + 5
                    made.extras.session = 1
            made.deadline_us = {1: T0 + 2_000_000, 4: T0 + YEARS_US}.get(offset, 0)
            builder.add(made, offset, T0)
        batch = builder.close(first + 2, 4 + first)
        log.append(batch.pack_header(0, log.salt) + b"".join(batch.pieces))
    write_marks(tmp_path, [log])
    names = ["offset", "body", "epoch", "source_log", "source_epoch", "source_offset", "due", "deadline"]
    rows = read_arrow(tmp_path, table="messages", columns=names).to_pylist()
    for row in rows:
        for column in ("due", "deadline"):
            row[column] = row[column] and round(row[column].timestamp() * 1_000_000)
    assert [tuple(row.values())[2:] for row in rows] == [
        (4, None, None, None, None, None),
        (4, None, None, None, None, T0 + 2_000_000),
        (4, None, None, None, None, None),
        (7, "cd" * 16, None, 73, None, None),
        (7, None, None, None, T0 + 5, T0 + YEARS_US),
        (7, "cd" * 16, 5, 75, None, None),
    ]
    assert [row["body"] for row in rows] == [b"%d" % offset for offset in range(6)]


def test_decimals_in_headers_are_exact() -> None:
    def decimal(scale: int, unscaled: int) -> bytes:
        return b"D" + bytes([scale]) + unscaled.to_bytes(4, "big", signed=True)

    for scale, unscaled, text in (
        (2, 110, "1.10"),
        (20, 2_147_483_647, "0.00000000002147483647"),
        (0, -5, "-5"),
        (255, 1, "0." + "0" * 254 + "1"),
    ):
        assert header_texts(b"\x01d" + decimal(scale, unscaled)) == {"d": text}
        items = decimal(scale, unscaled)
        assert header_texts(b"\x01aA" + len(items).to_bytes(4, "big") + items) == {"a": f'["{text}"]'}


def test_header_values_as_text() -> None:
    table = encode_plain(
        {"s": "x", "n": -3, "t": True, "v": None, "l": [1, {"a": "b"}], "f": 1.5, "x": b"\xff", "d": {"k": 1}}
    )
    assert header_texts(table[4:]) == {
        "s": "x",
        "n": "-3",
        "t": "true",
        "v": None,
        "l": '[1, {"a": "b"}]',
        "f": "1.5",
        "x": "/w==",
        "d": '{"k": 1}',
    }
    assert header_texts(b"\x01tT" + (86400).to_bytes(8)) == {"t": "1970-01-02T00:00:00Z"}
    for seconds in (1 << 40, 1 << 58, (1 << 64) - 1):
        assert header_texts(b"\x01tT" + seconds.to_bytes(8)) == {"t": str(seconds)}
    assert header_texts(b"\x01t?") is None
    # A value that ends behind its table, its array, or the table inside its table.
    assert header_texts(b"\x01aF\0\0\0\x04\x01bI\0\0\0\x01") is None
    assert header_texts(b"\x01aA\0\0\0\x02I\0\0\0\x01") is None
    assert header_texts(b"\x01aI\0\0\0") is None
    assert header_texts(b"\x05t") is None
    assert header_texts(b"\x01aS\0\0\0\x09x") is None


def test_timestamps_that_python_does_not_know(tmp_path: Path) -> None:
    """Milliseconds for seconds, as some clients send them."""
    stamp(tmp_path)
    log = queue_log(tmp_path, "/", "q", "ab" * 16)
    seconds = [1_700_000_000, 1_700_000_000_000, 253_402_300_799, 253_402_300_800, (1 << 64) - 1]
    sent = [Sent(n, T0, properties=b"\x00\x40" + value.to_bytes(8)) for n, value in enumerate(seconds)]
    log.append(messages_batch(0, 4, sent))
    write_marks(tmp_path, [log])
    column = read_arrow(tmp_path, table="messages", columns="message_timestamp").column(0)
    expected = [datetime.fromtimestamp(seconds[n], UTC) if n in (0, 2) else None for n in range(5)]
    assert column.to_pylist() == expected


def test_a_run_of_a_million_events() -> None:
    with tempfile.TemporaryDirectory() as directory:
        data = Path(directory)
        stamp(data)
        (log,) = routing_log(data, "/", NAMES)
        log.append(routing_batch(0, [Run(0, b"k", T0, 1_000_000), Run(1, b"k", T0 + 5, 3)]))
        write_marks(data, [log])
        table = read_arrow(data, columns="offset,exchange")
        assert table["offset"].to_pylist() == list(range(1_000_003))
        assert max(len(chunk) for chunk in table["offset"].chunks) == 65536


@pytest.mark.parametrize("what", ["route", "events", "keys", "payload"])
def test_contradictions_name_the_place(tmp_path: Path, what: str) -> None:
    stamp(tmp_path)
    (log,) = routing_log(tmp_path, "/", NAMES)
    log.append(routing_batch(0, [Run(0, b"k", T0)]))
    good = routing_batch(1, [Run(1, b"abc", T0 + 1), Run(2, b"de", T0 + 2)])
    payload = bytearray(good[72:])
    if what == "route":
        payload[12] = 99
    elif what == "events":
        payload[24] = 9
    elif what == "keys":
        payload[28] = 7
    position = log.position
    data = batch(ROUTING, 24, 2, 1, 2, T0 + 1, bytes(payload))
    if what == "payload":
        data = data[:-1] + b"!"
    log.append(data)
    write_marks(tmp_path, [log])
    with pytest.raises(CorruptLog, match=f"{log.path} at byte {position}, offset 1") as error:
        read_arrow(tmp_path)
    assert (error.value.position, error.value.offset) == (position, 1)


def test_routes_that_refer_to_their_names(tmp_path: Path) -> None:
    payloads = [
        b'"long\\udcff"',
        b'["x","#","long","queue"]',
        b'"other"',
        b'{"exchange":"x","queues":[2,0],"bindings":[1],"durable":1,"fanout":2}',
        b'{"exchange":"","queues":["q"],"bindings":[],"durable":1,"fanout":1}',
    ]
    entries = [pack_name(number, payload, 77) for number, payload in enumerate(payloads)]
    (tmp_path / f"{7:020d}.names").write_bytes(names_header(7) + b"".join(entries))
    found = read_names(str(tmp_path), 7, 77)
    assert found.count == 5
    assert found.queues.to_pylist()[3:] == [["other", "long\ufffd"], ["q"]]
    assert found.exchange.to_pylist()[3:] == ["x", ""]
    assert list(found.fanout[3:]) == [2, 1]
    assert list(found.wanted(None, ["other"])) == [False, False, False, True, False]


def test_slow_reader_reads_what_the_encoder_wrote(tmp_path: Path) -> None:
    log = LogFiles(tmp_path, NAMES)
    log.append(routing_batch(0, [Run(0, b"k", T0, 2), Run(0, b"k", T0 + 1)]))
    assert [batch_[3] for batch_ in slow_batches(log.path)] == [0]
    assert [row["routing_key"] for row in slow_events(tmp_path, NAMES)] == ["k"] * 3

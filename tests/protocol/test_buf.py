"""Both twins of the output buffer, held to the same tests."""

from __future__ import annotations

import importlib.util
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_router.protocol import _buf


def plain_twin() -> Any:
    """``_buf.py``, whether or not the compiled twin is loaded."""
    path = Path(_buf.__file__).parent / "_buf.py"
    spec = importlib.util.spec_from_file_location("plain_buf", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Buf


TWINS = {"plain": plain_twin(), "loaded": _buf.Buf}
twins = pytest.mark.parametrize("buf_type", TWINS.values(), ids=TWINS.keys())

NUMBERS = {
    "u8": (1, ">B"),
    "u16": (2, ">H"),
    "u32": (4, ">I"),
    "u64": (8, ">Q"),
    "le16": (2, "<H"),
    "le32": (4, "<I"),
    "le64": (8, "<Q"),
}


@twins
def test_new_buffer_is_empty(buf_type: Any) -> None:
    buf = buf_type()
    assert len(buf) == buf.size == 0
    assert buf.take() == b""


@twins
@pytest.mark.parametrize("name", NUMBERS)
def test_numbers(buf_type: Any, name: str) -> None:
    octets, form = NUMBERS[name]
    for value in (0, 1, 0x7F, (1 << 8 * octets - 1) - 1, 1 << 8 * octets - 1, (1 << 8 * octets) - 1):
        buf = buf_type()
        getattr(buf, name)(value)
        assert buf.size == octets
        assert buf.take() == struct.pack(form, value)


@twins
def test_take_empties_the_buffer_and_leaves_what_was_taken(buf_type: Any) -> None:
    buf = buf_type()
    buf.put(b"one")
    taken = buf.take()
    buf.put(b"two")
    assert (taken, buf.take(), buf.take()) == (b"one", b"two", b"")


@twins
@pytest.mark.parametrize("size", [1, 1023, 1024, 1025, 32767, 32768, 32769, 1 << 20, (1 << 20) + 1])
def test_take_at_the_sizes_where_it_works_differently(buf_type: Any, size: int) -> None:
    data = bytes(range(256)) * (size // 256) + bytes(size % 256)
    buf = buf_type()
    for _ in range(2):
        buf.put(data)
        first = buf.take()
        buf.put(data[::-1])
        assert first == data
        assert buf.take() == data[::-1]


@twins
def test_clear(buf_type: Any) -> None:
    buf = buf_type()
    for size in (5, 2 << 20):
        buf.put(bytes(size))
        buf.clear()
        assert len(buf) == 0
        buf.put(b"after")
        assert buf.take() == b"after"


@twins
def test_put_range(buf_type: Any) -> None:
    buf = buf_type()
    buf.put_range(b"abcdef", 1, 4)
    buf.put_range(b"abcdef", 2, 2)
    buf.put_range(b"abcdef", 0, 6)
    assert buf.take() == b"bcdabcdef"


@twins
@pytest.mark.parametrize(("start", "end"), [(-1, 2), (3, 2), (0, 7), (7, 7)])
def test_put_range_outside_of_the_data(buf_type: Any, start: int, end: int) -> None:
    buf = buf_type()
    buf.put(b"x")
    with pytest.raises(IndexError):
        buf.put_range(b"abcdef", start, end)
    assert buf.take() == b"x"


@twins
def test_set_overwrites(buf_type: Any) -> None:
    buf = buf_type()
    buf.put(b"........")
    buf.set_u16(1, 0x4142)
    buf.set_u32(4, 0x43444546)
    assert buf.size == 8
    assert buf.take() == b".AB.CDEF"


@twins
@pytest.mark.parametrize("position", [-1, 5, 1 << 40])
def test_set_outside_of_the_buffer(buf_type: Any, position: int) -> None:
    buf = buf_type()
    buf.put(b"123456")
    with pytest.raises(IndexError):
        buf.set_u16(position, 0)
    with pytest.raises(IndexError):
        buf.set_u32(position - 2, 0)
    assert buf.take() == b"123456"


@twins
def test_put_deliver(buf_type: Any) -> None:
    prefix = b"\x01\x00\x05\x00\x00\x00\x00\x00\x3c\x00\x3c\x01t"
    route = b"\x01e\x03key"
    tag = 0x0102030405060708
    buf = buf_type()
    buf.put(b"before")
    buf.put_deliver(prefix, tag, 1, route)
    payload = prefix[7:] + tag.to_bytes(8, "big") + b"\x01" + route
    expected = b"\x01\x00\x05" + len(payload).to_bytes(4, "big") + payload + b"\xce"
    assert buf.size == 6 + len(expected)
    assert buf.take() == b"before" + expected


def operations() -> st.SearchStrategy[list[tuple[Any, ...]]]:
    """Calls of every method; positions are shares of what is in the buffer by then."""
    numbers = [
        st.tuples(st.just(name), st.integers(0, (1 << 8 * octets) - 1))
        for name, (octets, _) in NUMBERS.items()
    ]
    data = st.binary(max_size=40) | st.integers(0, 70_000).map(bytes)
    deliver = st.tuples(
        st.just("put_deliver"),
        st.binary(max_size=20).map(lambda tail: b"\x01\x00\x01\x00\x00\x00\x00" + tail),
        st.integers(0, (1 << 64) - 1),
        st.integers(0, 1),
        st.binary(max_size=20),
    )
    return st.lists(
        st.one_of(
            *numbers,
            st.tuples(st.just("put"), data),
            st.tuples(st.just("put_range"), st.binary(max_size=40), st.floats(0, 1), st.floats(0, 1)),
            deliver,
            st.tuples(st.just("set_u16"), st.floats(0, 1), st.integers(0, (1 << 16) - 1)),
            st.tuples(st.just("set_u32"), st.floats(0, 1), st.integers(0, (1 << 32) - 1)),
            st.just(("take",)),
            st.just(("clear",)),
        ),
        max_size=40,
    )


@given(operations())
def test_twins_agree(calls: list[tuple[Any, ...]]) -> None:
    bufs = [buf_type() for buf_type in TWINS.values()]
    for name, *drawn in calls:
        arguments = drawn
        if name == "put_range":
            data, low, high = arguments
            start, end = sorted((int(low * len(data)), int(high * len(data))))
            arguments = [data, start, end]
        elif name in ("set_u16", "set_u32"):
            room = bufs[0].size - (2 if name == "set_u16" else 4)
            if room < 0:
                continue
            arguments[0] = int(arguments[0] * room)
        taken = [getattr(buf, name)(*arguments) for buf in bufs]
        if name == "take":
            assert taken[0] == taken[1]
        assert bufs[0].size == bufs[1].size == len(bufs[1])
    assert bufs[0].take() == bufs[1].take()

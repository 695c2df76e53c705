"""What is written to a socket in one turn, and what is kept."""

from __future__ import annotations

from amqp_router.connection.writing import TURN_BYTES, WRITE_BYTES, Writer
from amqp_router.protocol.output import Output
from tests.connection.test_transport import Socket


class FullSocket(Socket):
    """Is full after each write, as a kernel that takes no more."""

    writer: Writer

    def write(self, data: bytes | bytearray | memoryview) -> None:
        super().write(data)
        self.writer.writable = False

    def get_write_buffer_size(self) -> int:
        return 7


def test_everything_small_is_written() -> None:
    output, sock = Output(), Socket()
    writer = Writer(output, sock)
    output.buf.put(b"abc")
    assert writer.flush()
    assert writer.flush()
    assert (sock.written, writer.send_oct, writer.send_cnt, writer.sent) == ([b"abc"], 3, 1, True)
    assert writer.unsent_bytes() == 0


def test_large_piece_leaves_in_parts_and_the_turn_ends() -> None:
    output, sock = Output(), Socket()
    writer = Writer(output, sock)
    piece = bytes(TURN_BYTES + WRITE_BYTES + 1)
    output.buf.put(piece)
    assert not writer.flush()
    assert [len(part) for part in sock.written] == [WRITE_BYTES] * (TURN_BYTES // WRITE_BYTES)
    assert writer.is_inside_of_a_frame()
    assert writer.unsent_bytes() == len(piece)
    assert writer.flush()
    assert b"".join(sock.written) == piece
    assert (writer.is_inside_of_a_frame(), writer.unsent_bytes(), writer.send_oct) == (False, 0, len(piece))


def test_socket_that_takes_no_more() -> None:
    output, sock = Output(), FullSocket()
    sock.writer = writer = Writer(output, sock)
    output.pieces.extend([b"a", b"b"])
    output.piece_bytes = 2
    assert not writer.flush()
    assert not writer.flush()
    assert (sock.written, output.waiting_bytes(), writer.unsent_bytes()) == ([b"a"], 1, 7)
    writer.writable = True
    writer.flush()
    assert sock.written == [b"a", b"b"]

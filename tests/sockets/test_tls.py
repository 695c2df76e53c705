"""The encrypted socket without a network: very many small records in one chunk are decrypted in slices."""

from __future__ import annotations

import asyncio
import random
import ssl
import struct
from collections.abc import Callable

import pytest

from amqp_router.sockets import tls
from amqp_router.sockets.certificates import Certificates, TlsOptions
from amqp_router.sockets.handshakes import Handshakes
from amqp_router.sockets.records import FEED_BYTES, RECORDS_MAX, STRANGE_BYTES, Records
from amqp_router.sockets.tls import TlsSocket
from tests.sockets.authority import Authority, server_authority
from tests.sockets.kernel import Kernel


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return server_authority(tmp_path_factory.mktemp("authority"))


class Reader(asyncio.Protocol):
    """The protocol inside: the chunks that it got. ``on_data`` is called at each."""

    def __init__(self) -> None:
        self.chunks: list[bytes] = []
        self.over = False
        self.on_data: Callable[[], None] = lambda: None

    def data_received(self, data: bytes) -> None:
        self.chunks.append(data)
        self.on_data()

    def eof_received(self) -> bool:
        self.over = True
        return False


class World:
    """A client and our end of one connection, between which the test carries octets."""

    def __init__(self, authority: Authority) -> None:
        files = authority.directory
        options = TlsOptions("amqps", files / "server.pem", files / "server.key")
        handshakes = Handshakes(asyncio.get_running_loop(), lambda *_, **__: None, timeout_s=600)
        self.reader = Reader()
        self.held = 0
        self.kernel = Kernel()
        self.ours = TlsSocket(
            Certificates(options, lambda *_, **__: None),
            handshakes,
            lambda: self.reader,
            self.account,
            lambda: 0.0,
        )
        self.ours.connection_made(self.kernel)
        self.into, self.out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = authority.client().wrap_bio(self.into, self.out, server_hostname="localhost")

    def account(self, change: int) -> None:
        self.held += change

    def arrive(self, data: bytes) -> None:
        """These octets are read as one chunk."""
        assert self.kernel.reads
        room = self.ours.get_buffer(len(data))
        room[: len(data)] = data
        self.ours.buffer_updated(len(data))

    async def shake(self, behind: bytes = b"") -> None:
        """The whole handshake; ``behind`` goes in the chunk of its last octets, a record for each octet."""
        is_done = False
        while not is_done:
            try:
                self.client.do_handshake()
                is_done = True
            except ssl.SSLWantReadError:
                pass
            self.arrive(self.out.read() + (self.records(behind) if is_done else b""))
            await asyncio.sleep(0)
            self.into.write(bytes(self.kernel.written))
            self.kernel.written.clear()

    def records(self, data: bytes) -> bytes:
        """A record for each octet."""
        for octet in data:
            self.client.write(bytes([octet]))
        return self.out.read()


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if each piece took longer than a slice may."""
    monkeypatch.setattr(tls, "SLICE_S", -1.0)


DATA = bytes(number % 251 for number in range(40 * RECORDS_MAX))


@pytest.mark.usefixtures("slow")
async def test_small_records_come_in_slices(authority: Authority) -> None:
    world = World(authority)
    await world.shake()
    held = world.held
    data = world.records(DATA)
    world.arrive(data)
    assert world.reader.chunks == [DATA[:RECORDS_MAX]]
    # The rest is counted, and nothing else is read before it.
    assert not world.kernel.reads
    assert len(data) // 2 < world.held - held < len(data)
    for _ in range(39):
        await asyncio.sleep(0.001)
    assert {len(chunk) for chunk in world.reader.chunks} == {RECORDS_MAX}
    assert b"".join(world.reader.chunks) == DATA
    assert world.kernel.reads
    assert world.held == held


@pytest.mark.usefixtures("slow")
async def test_what_comes_behind_the_handshake_comes_in_slices(authority: Authority) -> None:
    world = World(authority)
    await world.shake(behind=DATA[:400])
    while not world.kernel.reads:
        await asyncio.sleep(0.001)
    assert b"".join(world.reader.chunks) == DATA[:400]
    # The first slice also has what was in one piece with the end of the handshake.
    assert max(map(len, world.reader.chunks)) < 2 * RECORDS_MAX


@pytest.mark.usefixtures("slow")
async def test_the_rest_waits_until_it_is_wanted(authority: Authority) -> None:
    """A paused protocol gets nothing; then first the rest, and only behind it what the kernel has."""
    world = World(authority)
    await world.shake()
    world.reader.on_data = world.ours.pause_reading
    world.arrive(world.records(DATA))
    for count in range(1, 40):
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(world.reader.chunks) == count
        assert not world.ours.is_reading()
        assert not world.kernel.reads
        world.ours.resume_reading()
        world.ours.resume_reading()
        assert world.ours.is_reading()
    for _ in range(5):
        await asyncio.sleep(0)
    assert b"".join(world.reader.chunks) == DATA
    assert not world.kernel.reads  # the last chunk paused, too
    world.ours.resume_reading()
    assert world.kernel.reads


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("way", ["close", "abort", "lost"])
async def test_an_end_within_the_rest(authority: Authority, way: str) -> None:
    world = World(authority)
    await world.shake()
    world.arrive(world.records(DATA))
    if way != "lost":
        getattr(world.ours, way)()
    world.ours.connection_lost(None)
    assert world.held == 0
    chunks = len(world.reader.chunks)
    world.kernel.ended = True
    for _ in range(5):
        await asyncio.sleep(0.001)
    assert len(world.reader.chunks) == chunks


@pytest.mark.usefixtures("slow")
async def test_the_end_that_the_client_announces_comes_behind_the_rest(authority: Authority) -> None:
    world = World(authority)
    await world.shake()
    data = world.records(DATA)
    with pytest.raises(ssl.SSLWantReadError):
        world.client.unwrap()
    world.arrive(data + world.out.read())
    assert not world.reader.over
    while not world.reader.over:
        await asyncio.sleep(0.001)
    assert b"".join(world.reader.chunks) == DATA
    assert world.kernel.ended


def stream(choose: random.Random, count: int) -> tuple[bytes, set[int]]:
    """Records of any size, and where each begins."""
    data, begins = bytearray(), set()
    for _ in range(count):
        size = choose.choice([0, 1, 2, 22, 300, 16_401])
        begins.add(len(data))
        data += struct.pack(">BHH", 23, 0x303, size) + choose.randbytes(size)
    return bytes(data), begins


@pytest.mark.parametrize("seed", range(40))
def test_pieces_have_few_records_however_chunks_are_cut(seed: int) -> None:
    choose = random.Random(seed)
    data, begins = stream(choose, 300)
    followed, done = Records(), 0
    while done < len(data):
        chunk = memoryview(data)[done : done + choose.choice([1, 3, 5, 40, 5000, 262_144])]
        at = 0
        while at < len(chunk):
            end = followed.piece(chunk, at)
            assert at < end <= min(len(chunk), at + FEED_BYTES)
            held = [begin for begin in begins if done + at <= begin < done + end]
            assert len(held) <= RECORDS_MAX + 1  # one of them may have a part of its header alone
            at = end
        done += len(chunk)


def test_few_large_records_are_one_piece() -> None:
    """Of 64 KiB, as many as OpenSSL gets at a time."""
    record = struct.pack(">BHH", 23, 0x303, 16_401) + bytes(16_401)
    chunk = memoryview((record * 20)[: 256 << 10])
    followed, ends = Records(), [0]
    while ends[-1] < len(chunk):
        ends.append(followed.piece(chunk, ends[-1]))
    assert ends == [0, FEED_BYTES, 2 * FEED_BYTES, 3 * FEED_BYTES, 4 * FEED_BYTES]


def test_what_is_no_record_is_taken_little_by_little() -> None:
    followed, chunk = Records(), memoryview(b"\x80" * 10_000)
    assert followed.piece(chunk, 0) == STRANGE_BYTES
    assert followed.piece(chunk, STRANGE_BYTES) == 2 * STRANGE_BYTES

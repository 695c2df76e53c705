"""The frames of a large message that stay in the log until they are sent.

Reading 128 MiB at once would hold the event loop for a tenth of a second, and take that much memory.
Therefore a large message is read frame by frame while its receiver takes it. The batch's checksum can only be
compared when everything is read. The last frame is returned after that, so a damaged message never arrives
completely.
"""

from __future__ import annotations

from collections.abc import Callable
from zlib import crc32

from amqp_router.protocol.constants import FRAME_BODY
from amqp_router.protocol.message import make_frame

from ...errors import CorruptLog
from ...files import File


class StoredFrames:
    """Frames by index, header frame first: like a tuple of frames, but each is read when it is used.

    They must be read forward from the first, once or several times. ``crc`` is the checksum of the payload
    before the body, ``behind`` what follows the body, and ``wanted`` the checksum of the whole payload. The
    object has a descriptor of its own, because the segment may be removed meanwhile.
    """

    __slots__ = (
        "_at",
        "_behind",
        "_body_size",
        "_crc",
        "_crc_start",
        "_file",
        "_frame_payload",
        "_header",
        "_next",
        "_path",
        "_wanted",
        "on_error",
    )

    def __init__(
        self,
        file: File,
        path: str,
        *,
        header: bytes,
        at: int,
        body_size: int,
        frame_payload: int,
        crc: int,
        wanted: int,
        behind: bytes = b"",
    ) -> None:
        self._file = file
        self._path = path
        self._header = header
        self._at = at
        self._body_size = body_size
        self._frame_payload = frame_payload
        self._crc_start = crc
        self._crc = crc
        self._wanted = wanted
        self._behind = behind
        self._next = 1
        #: Called with the error that makes a frame unreadable, before it is raised.
        self.on_error: Callable[[Exception], None] | None = None

    def __len__(self) -> int:
        return 1 + -(-self._body_size // self._frame_payload)

    def __getitem__(self, index: int) -> bytes:
        """The frame at ``index``, on channel 0.

        Raises:
            CorruptLog: the body ends early, or its checksum is wrong (seen at the last frame).
            OSError: the read failed.
        """
        if index == 0:
            return self._header
        if not 0 < index < len(self):
            raise IndexError(index)
        try:
            return self._read(index)
        except (OSError, CorruptLog) as error:
            if self.on_error is not None:
                self.on_error(error)
            raise

    def _read(self, index: int) -> bytes:
        start = (index - 1) * self._frame_payload
        size = min(self._frame_payload, self._body_size - start)
        payload = self._file.read(size, self._at + start)
        if len(payload) < size:
            raise CorruptLog(self._path, self._at + start, "a large message is cut short")
        if index == 1:
            self._crc, self._next = self._crc_start, 1
        if index == self._next:
            self._crc = crc32(payload, self._crc)
            self._next = index + 1
        count = len(self)
        if index == count - 1 and (self._next != count or crc32(self._behind, self._crc) != self._wanted):
            raise CorruptLog(self._path, self._at, "checksum of a batch is wrong")
        return make_frame(FRAME_BODY, 0, payload)

    def __del__(self) -> None:
        self._file.close()

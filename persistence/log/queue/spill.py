"""Contents of delivered and unacknowledged transient messages, moved from memory into files.

The node has one set of files for this process only. A thread writes them (``page_files``), and until that is
done a content is read from memory. Contents are settled in any order, so each file counts those that are
still needed and is removed with the last one.
"""

from __future__ import annotations

from collections.abc import Sequence

from amqp_router.protocol.message import Message

from ...errors import CorruptLog
from ...files import join
from ...unwatched import unwatch
from .page_files import PageFile, PageFiles, PageWrite


class SpillFile(PageFile):
    """A file, and the number of contents in it that are still needed."""

    __slots__ = ("wanted",)

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.wanted = 0


class Spill:
    """Made by the catalog. ``files`` are shared with the page logs."""

    def __init__(self, directory: str, files: PageFiles, *, file_bytes_max: int) -> None:
        self._directory = directory
        self.files = files
        self._file_bytes_max = file_bytes_max
        self._file: SpillFile | None = None
        self._files_made = 0

    def put(self, message: Message) -> bool:
        """Move the message's content to a file, from which it is read when needed; False if that fails.

        It fails if there is no disk space or no descriptor for now. The message then keeps its content in
        memory. If the thread finds that out later, the content stays in memory and is counted there.
        """
        content = message.content
        assert content is not None
        frames = (
            [content] if isinstance(content, bytes) else [content[index] for index in range(len(content))]
        )
        spilled = SpilledContent(self, self._file_for_next(), frames)
        self.files.write(ContentWrite(spilled))
        if spilled.kept_bytes:
            return False
        message.content = spilled
        return True

    def _file_for_next(self) -> SpillFile:
        file = self._file
        if file is not None and file.size < self._file_bytes_max:
            return file
        self._files_made += 1
        self._file = SpillFile(join(self._directory, f"unacked-{self._files_made}.spill"))
        if file is not None and not file.wanted:
            self.files.remove([file])
        return self._file

    def read(self, file: SpillFile, size: int, position: int) -> bytes:
        """A piece of a content.

        Raises:
            OSError, CorruptLog: it cannot be read.
        """
        data = self.files.read(file, size, position)
        if len(data) < size:
            raise CorruptLog(file.path, position, "the content of an unacknowledged message is cut short")
        return data

    def drop(self, file: SpillFile) -> None:
        """A content in ``file`` is no longer needed."""
        file.wanted -= 1
        if not file.wanted:
            if file is self._file and file.size < self._file_bytes_max:
                file.size = 0  # reuse the file, which is common if memory is short for one message at a time
                return
            if file is self._file:
                self._file = None
            self.files.remove([file])


class SpilledContent:
    """Frames by index, header frame first, as for a large message. Those of a small message are one piece.

    Its space in the file is given back when the last reference to it is dropped.
    """

    __slots__ = ("_lengths", "_spill", "file", "frames", "kept_bytes", "position")

    def __init__(self, spill: Spill, file: SpillFile, frames: list[bytes]) -> None:
        self._spill = spill
        self.file = file
        self.position = file.size
        #: None if they are in the file.
        self.frames: list[bytes] | None = frames
        #: What is counted as contents because it cannot be written.
        self.kept_bytes = 0
        lengths = [len(frame) for frame in frames]
        #: A number if there is one piece, as for most contents, because it takes less memory than a list.
        self._lengths: list[int] | int = lengths if len(lengths) > 1 else lengths[0]
        file.size += sum(lengths)
        file.wanted += 1
        unwatch(self)  # a million may be unacknowledged; none is part of a cycle

    @property
    def size(self) -> int:
        """Bytes of the frames."""
        return self._lengths if isinstance(self._lengths, int) else sum(self._lengths)

    @property
    def is_whole(self) -> bool:
        """Whether it is one piece, which ``[0]`` returns."""
        return isinstance(self._lengths, int)

    def __len__(self) -> int:
        return 1 if isinstance(self._lengths, int) else len(self._lengths)

    def __getitem__(self, index: int) -> bytes:
        if self.frames is not None:
            return self.frames[index]
        if isinstance(self._lengths, int):
            return self._spill.read(self.file, self._lengths, self.position)
        start = self.position + sum(self._lengths[:index])
        return self._spill.read(self.file, self._lengths[index], start)

    def written(self, error: OSError | None) -> None:
        """It is in the file, or stays in memory."""
        if error is None:
            self.frames = None
        else:
            self.kept_bytes = self.size
            self._spill.files.account.used += self.kept_bytes

    def __del__(self) -> None:
        self._spill.files.account.used -= self.kept_bytes
        self._spill.drop(self.file)


class ContentWrite(PageWrite):
    """A content on its way to its file, and in memory until then."""

    __slots__ = ("_content", "_frames")

    def __init__(self, content: SpilledContent) -> None:
        super().__init__(content.file, content.position, content.size)
        self._content: SpilledContent | None = content
        self._frames: Sequence[bytes] = content.frames or ()

    def pieces(self) -> Sequence[bytes | memoryview]:
        return self._frames

    def ended(self) -> None:
        # Not left to the thread, which keeps its last job until it gets another one.
        content, self._content, self._frames = self._content, None, ()
        assert content is not None
        content.written(self.error)

"""Contents of delivered and unacknowledged transient messages, moved from memory into files.

The node has one set of files for this process only. They are never synced, and the next start deletes them
with the page logs. Contents are settled in any order, so each file counts those that are still needed and is
removed with the last one.
"""

from __future__ import annotations

from functools import partial

from amqp_router.protocol.message import Message

from ...errors import CorruptLog
from ...files import Disk, FileCache, join
from ...worker import Worker
from .page_log import remove_file


class SpillFile:
    """A file, its size, and the number of contents in it that are still needed."""

    __slots__ = ("path", "size", "wanted")

    def __init__(self, path: str) -> None:
        self.path = path
        self.size = 0
        self.wanted = 0


class Spill:
    """Made by the catalog. It writes on the event loop, to the page cache, without a sync."""

    def __init__(
        self, disk: Disk, directory: str, janitor: Worker, files: FileCache, *, file_bytes_max: int
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._janitor = janitor
        self._cache = files
        self._file_bytes_max = file_bytes_max
        self._file: SpillFile | None = None
        self._files_made = 0

    def put(self, message: Message) -> bool:
        """Move the message's content to a file, from which it is read when needed; False if that fails.

        It fails if there is no disk space or no descriptor for now. The message then keeps its content in
        memory.
        """
        content = message.content
        assert content is not None
        frames = (
            [content] if isinstance(content, bytes) else [content[index] for index in range(len(content))]
        )
        try:
            file = self._file_for_next()
            self._cache.get(file.path, create=not file.size).write(frames, file.size)
        except OSError:
            return False
        message.content = SpilledContent(self, file, [len(frame) for frame in frames])
        return True

    def _file_for_next(self) -> SpillFile:
        file = self._file
        if file is not None and file.size < self._file_bytes_max:
            return file
        self._disk.make_directory(self._directory)
        self._files_made += 1
        self._file = SpillFile(join(self._directory, f"unacked-{self._files_made}.spill"))
        if file is not None and not file.wanted:
            self._remove(file)
        return self._file

    def read(self, file: SpillFile, size: int, position: int) -> bytes:
        """A piece of a content.

        Raises:
            OSError, CorruptLog: it cannot be read.
        """
        data = self._cache.get(file.path).read(size, position)
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
            self._remove(file)

    def _remove(self, file: SpillFile) -> None:
        self._cache.drop(file.path)
        self._janitor.submit(partial(remove_file, self._disk, file.path))


class SpilledContent:
    """Frames by index, header frame first, as for a large message. Those of a small message are one piece.

    Its space in the file is given back when the last reference to it is dropped.
    """

    __slots__ = ("_file", "_lengths", "_position", "_spill")

    def __init__(self, spill: Spill, file: SpillFile, lengths: list[int]) -> None:
        self._spill = spill
        self._file = file
        self._position = file.size
        #: A number if there is one piece, as for most contents, because it takes less memory than a list.
        self._lengths: list[int] | int = lengths if len(lengths) > 1 else lengths[0]
        file.size += sum(lengths)
        file.wanted += 1

    @property
    def is_whole(self) -> bool:
        """Whether it is one piece, which ``[0]`` returns."""
        return isinstance(self._lengths, int)

    def __len__(self) -> int:
        return 1 if isinstance(self._lengths, int) else len(self._lengths)

    def __getitem__(self, index: int) -> bytes:
        if isinstance(self._lengths, int):
            return self._spill.read(self._file, self._lengths, self._position)
        start = self._position + sum(self._lengths[:index])
        return self._spill.read(self._file, self._lengths[index], start)

    def __del__(self) -> None:
        self._spill.drop(self._file)

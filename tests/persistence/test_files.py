"""The real disk: its errors name the file."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from persistence.files import RealDisk


def test_errors_of_an_open_file_name_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x")
    disk = RealDisk()
    file = disk.open(str(path))
    for attempt in (lambda: file.write([b"y"], 0), lambda: file.truncate(0)):
        with pytest.raises(OSError, match="file") as caught:
            attempt()
        assert caught.value.filename == str(path)
    file.close()
    for attempt in (lambda: file.read(1, 0), file.sync):
        with pytest.raises(OSError, match="file") as caught:
            attempt()
        assert (caught.value.errno, caught.value.filename) == (errno.EBADF, str(path))

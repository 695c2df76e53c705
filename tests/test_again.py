"""`tools/again.sh`: a command that needs the network gets four attempts."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.trees import ROOT

#: Notes each call, and fails those before the one of this number.
COMMAND = 'echo "$1" >>calls; [ "$(wc -l <calls)" -ge "$0" ] || exit 7'


@pytest.mark.parametrize(
    ("succeeds_at", "calls", "code"), [(1, 1, 0), (2, 2, 0), (4, 4, 0), (5, 4, 7)], ids=str
)
def test_attempts(tmp_path: Path, succeeds_at: int, calls: int, code: int) -> None:
    done = subprocess.run(
        ["sh", str(ROOT / "tools" / "again.sh"), "sh", "-c", COMMAND, str(succeeds_at), "two words"],
        cwd=tmp_path,
        env={**os.environ, "AGAIN_PAUSES": "0 0 0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code
    assert (tmp_path / "calls").read_text() == "two words\n" * calls
    assert done.stderr.count("Trying again in 0 s") == calls - 1

"""Copies of this source tree, for tests that build in one or change it."""

from __future__ import annotations

import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def copy_tree(target: Path) -> Path:
    """The sources, nothing that was built."""
    ignored = shutil.ignore_patterns(
        ".*", "build", "*.so", "*.egg-info", "__pycache__", "compiled.json", "data"
    )
    return Path(shutil.copytree(ROOT, target, ignore=ignored))

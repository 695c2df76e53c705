"""How much memory this process may use: the machine's, or less where a control group says so.

A limit of any group above the process's own counts, too: a container's process may be in a group without a
limit, inside of one that has one.

Source: Linux, cgroups(7), proc_pid_cgroup(5) and proc_pid_mountinfo(5).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

#: Name of a group's limit in version 1 and version 2.
_V1, _V2 = "memory.limit_in_bytes", "memory.max"


def memory_limit(option: str, proc: Path = Path("/proc/self")) -> int:
    """The option ``memory_limit`` in bytes; ``40%`` is that share of ``memory_total``."""
    if option.endswith("%"):
        return int(memory_total(proc) * float(option[:-1]) / 100)
    return int(option)


def memory_total(proc: Path = Path("/proc/self")) -> int:
    """Bytes of the machine, or of the tightest control group that this process is in."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([total, *_group_limits(proc)])


def _group_limits(proc: Path) -> Iterator[int]:
    for directory, mount, name in _groups(proc):
        for group in (directory, *directory.parents):
            limit = _read_number(group / name)
            if limit > 0:
                yield limit
            if group == mount:
                break


def _groups(proc: Path) -> Iterator[tuple[Path, Path, str]]:
    """Directory of each of the process's groups that may limit memory, where its tree is mounted, and
    the name of the limit."""
    paths = {}
    for line in _lines(proc / "cgroup"):
        _, controllers, path = line.split(":", 2)
        if not controllers:
            paths[_V2] = path
        elif "memory" in controllers.split(","):
            paths[_V1] = path
    for line in _lines(proc / "mountinfo"):
        before, _, after = line.partition(" - ")
        mounted, kind = before.split(" "), after.split(" ")
        name = {"cgroup2": _V2, "cgroup": _V1}.get(kind[0], "")
        if name not in paths or (name == _V1 and "memory" not in kind[-1].split(",")):
            continue
        root, mount = mounted[3], Path(mounted[4])
        path = paths[name]
        # Inside of a container the mount shows a part of the tree, and the path may be that of the whole.
        inside = path.removeprefix(root) if root != "/" else path
        directory = mount / inside.lstrip("/")
        yield (directory if ".." not in directory.parts and directory.is_dir() else mount), mount, name


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []  # not Linux, or not to be seen


def _read_number(path: Path) -> int:
    """0 if there is none: no limit ("max"), or no such file, as at the top of the tree."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return 0

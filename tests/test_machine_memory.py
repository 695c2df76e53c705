"""The memory of the machine or of its control groups, on trees made for the test."""

from __future__ import annotations

from pathlib import Path

import pytest

from amqp_router.machine_memory import memory_limit, memory_total

MIB = 1 << 20


def tree(root: Path, cgroup: str, mounts: str, limits: dict[str, str]) -> Path:
    """``/proc/self`` of a process in ``cgroup``; ``limits`` are files below ``root/sys``."""
    proc = root / "proc"
    proc.mkdir()
    (proc / "cgroup").write_text(cgroup)
    (proc / "mountinfo").write_text(mounts.replace("SYS", str(root / "sys")))
    for name, text in limits.items():
        file = root / "sys" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return proc


V2 = "30 23 0:26 / SYS rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = "31 23 0:27 / SYS/memory rw - cgroup cgroup rw,memory\n32 23 0:28 / SYS/cpu rw - cgroup cgroup rw,cpu\n"


@pytest.mark.parametrize(
    ("cgroup", "mounts", "limits", "expected"),
    [
        ("0::/a/b\n", V2, {"a/memory.max": "400", "a/b/memory.max": "max"}, 400),
        ("0::/a/b\n", V2, {"a/memory.max": "400", "a/b/memory.max": "300"}, 300),
        ("0::/a/b\n", V2, {"a/memory.max": "200", "a/b/memory.max": "300"}, 200),
        ("0::/\n", V2, {"memory.max": "500"}, 500),
        # A container that sees its own group at the top, though the path is that of the host.
        ("0::/docker/x\n", V2, {"memory.max": "500"}, 500),
        ("0::/../y\n", V2, {"memory.max": "500"}, 500),
        (
            "0::/docker/x/in\n",
            V2.replace(" / ", " /docker/x "),
            {"in/memory.max": "max", "memory.max": "600"},
            600,
        ),
        (
            "5:cpu:/a\n4:memory:/a/b\n0::/\n",
            V1,
            {
                "memory/a/memory.limit_in_bytes": "400",
                "memory/a/b/memory.limit_in_bytes": "9223372036854771712",
            },
            400,
        ),
    ],
)
def test_tightest_group_counts(
    tmp_path: Path, cgroup: str, mounts: str, limits: dict[str, str], expected: int
) -> None:
    assert memory_total(tree(tmp_path, cgroup, mounts, limits)) == expected


def test_machine_without_groups(tmp_path: Path) -> None:
    whole = memory_total(tmp_path / "nowhere")
    assert whole > 64 * MIB
    assert memory_total(tree(tmp_path, "0::/a\n", V2, {"a/memory.max": "max"})) == whole


def test_limit_is_a_share_or_a_number_of_bytes(tmp_path: Path) -> None:
    proc = tree(tmp_path, "0::/\n", V2, {"memory.max": str(1000 * MIB)})
    assert memory_limit("40%", proc) == 400 * MIB
    assert memory_limit(str(64 * MIB), proc) == 64 * MIB

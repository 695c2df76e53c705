"""``python tools/cimports.py``: the import contracts of pyproject.toml, for what .pxd files cimport.

import-linter reads Python alone. A forbidden cimport is an error, named with its file and line.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("amqp_router", "vhosts", "persistence")
_CIMPORT = re.compile(r"^\s*(?:from\s+([\w.]+)\s+cimport|cimport\s+([\w.]+))")


def cimports(path: Path) -> list[tuple[int, str]]:
    """The modules that ``path`` cimports, each with its line."""
    found = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = _CIMPORT.match(line)
        if match:
            found.append((number, match[1] or match[2]))
    return found


def is_within(module: str, package: str) -> bool:
    """Whether ``module`` is ``package`` or a part of it."""
    return module == package or module.startswith(package + ".")


def problems() -> list[str]:
    """What breaks a contract of the kinds "forbidden" and "layers"."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    found = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.pxd")):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            for line, target in cimports(path):
                for contract in contracts:
                    if not _allows(contract, module, target):
                        place = path.relative_to(ROOT)
                        found.append(f"{place}:{line}: cimports {target}: {contract['name']!r} forbids it")
    return found


def _allows(contract: dict[str, object], module: str, target: str) -> bool:
    if contract["type"] == "forbidden":
        sources, forbidden = contract["source_modules"], contract["forbidden_modules"]
        assert isinstance(sources, list)
        assert isinstance(forbidden, list)
        if not any(is_within(module, each) for each in sources):
            return True
        # What is forbidden to others may use itself.
        return not any(is_within(target, each) and not is_within(module, each) for each in forbidden)
    layers = contract.get("layers")
    if not isinstance(layers, list) or "containers" in contract:
        return True
    ranks = {name.strip(): rank for rank, layer in enumerate(layers) for name in layer.split("|")}
    own, other = _rank(ranks, module), _rank(ranks, target)
    return own is None or other is None or own <= other


def _rank(ranks: dict[str, int], module: str) -> int | None:
    fitting = [name for name in ranks if is_within(module, name)]
    return ranks[max(fitting, key=len)] if fitting else None


def main() -> int:
    """Print what is wrong."""
    found = problems()
    print("\n".join(found) or "No .pxd file cimports what its module may not import.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

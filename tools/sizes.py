"""``python tools/sizes.py``: modules and classes that have grown too large.

Limits: lines of a module, the median over all modules, methods and attributes of a class. Methods are all but
``__init__``, a property with its setter once; attributes are those that ``__init__`` sets. With ``--list``
the largest of each are printed.
"""

from __future__ import annotations

import argparse
import ast
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("amqp_router", "vhosts", "persistence", "admin_ui", "spark_analytics", "pyspark_amqp_router")
LINES_MAX = 450
MEDIAN_MAX = 120
METHODS_MAX = 25
ATTRIBUTES_MAX = 20


def attributes(node: ast.ClassDef) -> set[str]:
    """What ``__init__`` sets of the object itself."""
    found = set()
    for method in node.body:
        if isinstance(method, ast.FunctionDef) and method.name == "__init__":
            for each in ast.walk(method):
                if (
                    isinstance(each, ast.Attribute)
                    and isinstance(each.ctx, ast.Store)
                    and isinstance(each.value, ast.Name)
                    and each.value.id == "self"
                ):
                    found.add(each.attr)
    return found


def classes(path: Path) -> list[tuple[str, int, int]]:
    """The classes of a module: name, methods and attributes."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ClassDef):
            methods = {
                each.name for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
            }
            found.append((node.name, len(methods - {"__init__"}), len(attributes(node))))
    return found


def main() -> int:
    """Print what is too large."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="print the largest")
    arguments = parser.parse_args()
    paths = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    lines = {path.relative_to(ROOT).as_posix(): len(path.read_text().splitlines()) for path in paths}
    sizes = {
        f"{path.relative_to(ROOT)}: {name}": (methods, own)
        for path in paths
        for name, methods, own in classes(path)
    }
    if arguments.list:
        for name, count in sorted(lines.items(), key=lambda pair: -pair[1])[:10]:
            print(f"{name}: {count} lines")
        for column, what in enumerate(("methods", "attributes")):
            for name, counts in sorted(sizes.items(), key=lambda pair: -pair[1][column])[:15]:
                print(f"{name}: {counts[column]} {what}")
    problems = [
        f"{name}: {count} lines, at most {LINES_MAX}" for name, count in lines.items() if count > LINES_MAX
    ]
    middle = median(lines.values())
    if middle > MEDIAN_MAX:
        problems.append(f"the median module has {middle:.0f} lines, at most {MEDIAN_MAX}")
    for name, (methods, own) in sizes.items():
        if methods > METHODS_MAX:
            problems.append(f"{name} has {methods} methods, at most {METHODS_MAX}")
        if own > ATTRIBUTES_MAX:
            problems.append(f"{name} sets {own} attributes, at most {ATTRIBUTES_MAX}")
    good = f"{len(lines)} modules, {middle:.0f} lines the median; {len(sizes)} classes."
    print("\n".join(problems) or good)
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())

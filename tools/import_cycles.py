"""``python tools/import_cycles.py``: no module imports one that imports it, by whatever way.

Imports for type checking alone count as well. Each group of modules that import each other is named, with the
lines of a shortest cycle in it; then the exit status is 1.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import grimp

PACKAGES = ("amqp_router", "vhosts", "persistence", "admin_ui", "spark_analytics", "pyspark_amqp_router")


def groups(imports: dict[str, set[str]]) -> Iterator[list[str]]:
    """Modules that import each other, by whatever way: strongly connected components of more than one."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    for start in sorted(imports):
        if start in order:
            continue
        todo = [(start, iter(sorted(imports[start])))]
        order[start] = lowest[start] = len(order)
        stack.append(start)
        while todo:
            module, following = todo[-1]
            for imported in following:
                if imported not in order:
                    order[imported] = lowest[imported] = len(order)
                    stack.append(imported)
                    todo.append((imported, iter(sorted(imports[imported]))))
                    break
                if imported in stack:
                    lowest[module] = min(lowest[module], order[imported])
            else:
                todo.pop()
                if todo:
                    importer = todo[-1][0]
                    lowest[importer] = min(lowest[importer], lowest[module])
                if lowest[module] == order[module]:
                    at = stack.index(module)
                    group, stack[at:] = sorted(stack[at:]), []
                    if len(group) > 1:
                        yield group


def shortest_cycle(group: list[str], imports: dict[str, set[str]]) -> list[str]:
    """The shortest way from a module of ``group`` back to itself."""
    found: list[str] = []
    for start in group:
        ways = [[start]]
        seen = {start}
        while ways and (not found or len(ways[0]) < len(found)):
            way = ways.pop(0)
            following = imports[way[-1]].intersection(group)
            if start in following:
                found = way
                break
            ways += [[*way, module] for module in sorted(following - seen)]
            seen |= following
    return found


def main() -> int:
    """Look through the product's packages."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    graph = grimp.build_graph(*PACKAGES, exclude_type_checking_imports=False, cache_dir=None)
    imports = {module: set(graph.find_modules_directly_imported_by(module)) for module in graph.modules}
    count = 0
    for group in groups(imports):
        count += 1
        cycle = shortest_cycle(group, imports)
        print(f"{len(group)} modules import each other, for example:")
        for importer, imported in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
            for detail in graph.get_import_details(importer=importer, imported=imported):
                print(f"    {importer}:{detail['line_number']}: {detail['line_contents'].strip()}")
    if not count:
        print(f"No import cycles among {len(imports)} modules.")
    return 1 if count else 0


if __name__ == "__main__":
    raise SystemExit(main())

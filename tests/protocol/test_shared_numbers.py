"""Numbers that compiled modules have as constants of C are those of the Python modules beside them."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from types import ModuleType

import pytest

from amqp_router.protocol import constants, flags
from persistence.log.routing import events
from vhosts.queues import state


def constants_of_c(module: ModuleType) -> dict[str, int]:
    """What the enums in the ``.pxd`` beside ``module`` say."""
    source = Path(module.__file__ or "").with_suffix(".pxd").read_text()
    pairs = re.findall(r"^    ([A-Z_]+) = (.+)$", source, re.MULTILINE)
    return {name: eval(compile(ast.parse(value, mode="eval"), name, "eval"), {}) for name, value in pairs}


@pytest.mark.parametrize(
    "module", [constants, flags, events, state], ids=["constants", "flags", "events", "state"]
)
def test_constants_of_c_have_the_values_of_python(module: ModuleType) -> None:
    found = constants_of_c(module)
    assert found
    assert found == {name: getattr(module, name) for name in found}


@pytest.mark.parametrize("module", [flags, events], ids=["flags", "events"])
def test_all_flags_are_constants_of_c(module: ModuleType) -> None:
    names = {name for name in vars(module) if name.isupper()}
    assert constants_of_c(module).keys() == names


def test_no_compiled_module_has_a_copy_of_a_flag() -> None:
    root = Path(flags.__file__).parents[2]
    names = "|".join(name for name in vars(flags) if name.isupper())
    copies = [
        f"{path.relative_to(root)}: {found[0]}"
        for package in ("amqp_router", "vhosts", "persistence")
        for path in (root / package).rglob("*.py")
        for found in re.finditer(rf"^_\w+ = (?:\w+\.)?(?:{names})$", path.read_text(), re.MULTILINE)
        if "protocol.flags" in path.read_text() or "import flags" in path.read_text()
    ]
    assert copies == []

"""Several ES modules as one, so that a browser asks for one file instead of thirty.

Each module becomes a function that is called once, in the order of the imports, and returns what it exports.
A module that is part of the whole is also served under its own name, and passes on the exports of the whole:
what loads later imports the same objects. ``combine`` knows the forms of import and export that our modules
and libraries use, and refuses others.
"""

from __future__ import annotations

import json
import posixpath
import re
from dataclasses import dataclass, field

_PATH = r'"(\.{1,2}/[^"]+)"'
_FROM = re.compile(
    r"(?:^|(?<=[;}]))\s*(import|export)\s*([^;\"'()]*?)\s*from\s*" + _PATH + ";?", re.MULTILINE
)
_LATER = re.compile(r"\bimport\(" + _PATH)
_DECLARED = re.compile(r"^export ((?:async )?function\*?|const|class) (\w+)", re.MULTILINE)
_LIST = re.compile(r"(?:^|(?<=[;}]))\s*export\s*\{([^}]*)\};?", re.MULTILINE)
_DEFAULT = re.compile(r"(?:^|(?<=[;}]))\s*export default\b", re.MULTILINE)
#: What none of the above has taken.
_LEFT = re.compile(
    r"(?:^|(?<=[;}]))\s*(?:export\s*[\w{*]|import\s*(?:[{*\"]|\w+\s*(?:,|\bfrom\b)))", re.MULTILINE
)


class NotCombined(Exception):
    """A form of import or export that is not known here, or modules that import each other in a ring."""


@dataclass
class _Module:
    #: What its exports are called in the whole. It is made of the path: after an upgrade, a page that is
    #: still open may load a module of the new version, which then finds its like in the old whole.
    name: str
    text: str
    #: Exported names, with the expression for each.
    exports: dict[str, str] = field(default_factory=dict)


class Combined:
    """The modules that ``entry`` imports at once, and itself, as one that is served as ``name``."""

    def __init__(self, contents: dict[str, bytes], entry: str, name: str) -> None:
        self._contents = contents
        self._name = name
        self._modules: dict[str, _Module] = {}
        self._begun: list[str] = []
        self._add(entry)

    def text(self) -> bytes:
        """The whole."""
        parts = [
            f"const {each.name} = (() => {{ // {path}\n{each.text}\n"
            f"return {{ {', '.join(f'{json.dumps(n)}: {e}' for n, e in each.exports.items())} }};\n}})();\n"
            for path, each in self._modules.items()
        ]
        names = ", ".join(each.name for each in self._modules.values())
        return ("".join(parts) + f"export {{ {names} }};\n").encode()

    def stand_ins(self) -> dict[str, bytes]:
        """For each module one of the same name and exports, which takes them from the whole."""
        found = {}
        for path, module in self._modules.items():
            whole = posixpath.relpath(self._name, posixpath.dirname(path) or ".")
            lines = [f'import {{ {module.name} }} from "./{whole}";']
            named = [name for name in module.exports if name != "default"]
            if named:
                lines.append(f"export const {{ {', '.join(named)} }} = {module.name};")
            if "default" in module.exports:
                lines.append(f"export default {module.name}.default;")
            found[path] = ("\n".join(lines) + "\n").encode()
        return found

    def _add(self, path: str) -> _Module:
        known = self._modules.get(path)
        if known is not None:
            return known
        if path in self._begun:
            raise NotCombined(f"{path} imports itself by way of {self._begun[-1]}")
        self._begun.append(path)
        text = self._contents[path].decode()
        exports: dict[str, str] = {}
        folder = posixpath.dirname(path)

        def beside(relative: str) -> str:
            return posixpath.normpath(posixpath.join(folder, relative))

        def take_from(found: re.Match[str]) -> str:
            verb, names, relative = found.groups()
            other = self._add(beside(relative)).name
            if verb == "export":
                exports.update({out: f"{other}.{name}" for name, out in _names(names)})
                return ""
            return _binding(names, other)

        def take_list(found: re.Match[str]) -> str:
            exports.update({out: name for name, out in _names(f"{{{found[1]}}}")})
            return ""

        def take_declared(found: re.Match[str]) -> str:
            exports[found[2]] = found[2]
            return f"{found[1]} {found[2]}"

        def take_default(found: re.Match[str]) -> str:
            exports["default"] = "whole_"
            return "\nconst whole_ ="

        text = _FROM.sub(take_from, text)
        text = _LIST.sub(take_list, text)
        text = _DECLARED.sub(take_declared, text)
        text = _DEFAULT.sub(take_default, text)
        left = _LEFT.search(text)
        if left is not None:
            raise NotCombined(f"{path}: {text[left.start() : left.start() + 80]!r}")
        # Addresses are relative to the whole from now on.
        here = posixpath.dirname(self._name) or "."
        text = _LATER.sub(lambda found: f'import("./{posixpath.relpath(beside(found[1]), here)}"', text)
        own = posixpath.relpath(path, here)
        text = text.replace("import.meta.url", f'new URL("./{own}", import.meta.url)')
        self._begun.pop()
        module = self._modules[path] = _Module("_" + re.sub(r"\W", "_", path), text, exports)
        return module


def _names(written: str) -> list[tuple[str, str]]:
    """Pairs of ``{ a, b as c }``: (a, a), (b, c)."""
    inner = written.strip()
    if not (inner.startswith("{") and inner.endswith("}")):
        raise NotCombined(f"not a list of names: {written!r}")
    pairs = []
    for part in inner[1:-1].split(","):
        name, _, other = part.strip().partition(" as ")
        if name:
            pairs.append((name.strip(), (other or name).strip()))
    return pairs


def _binding(names: str, other: str) -> str:
    """What an import of ``names`` is, where the module's exports are in ``other``."""
    if names.startswith("{"):
        taken = [name if name == own else f"{name}: {own}" for name, own in _names(names)]
        return f"\nconst {{ {', '.join(taken)} }} = {other};"
    if names.startswith("* as "):
        return f"\nconst {names[5:].strip()} = {other};"
    if re.fullmatch(r"\w+", names):
        return f"\nconst {names} = {other}.default;"
    raise NotCombined(f"not a known import: {names!r}")

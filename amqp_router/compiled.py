"""Which modules run compiled: the import rule that keeps a stale build from hiding an edited source.

Python prefers ``queue.cpython-311-x86_64-linux-gnu.so`` to the ``queue.py`` beside it, however old the
former is. The build (``setup.py``) therefore writes `RECORD`: for each compiled module, the files it was
made from and a hash of each. `install` puts a finder before Python's own that, inside `PACKAGES`, lets an
extension module be loaded only if

- the record knows it and every file it was made from still has the recorded content, and
- every compiled module whose ``.pxd`` it was built against is itself loaded compiled (their classes are
  shared as C structs, a class of plain Python would not fit), and
- no module whose ``.pxd`` cimports it runs from its source (Python does not see what is ``cdef`` alone), and
- the environment variable `UNCOMPILED_VARIABLE` is not set.

Otherwise the ``.py`` is loaded; a module without one counts as not found. Both ways give the same behaviour;
only the speed differs.

Invariant: an extension module that was imported was built from the very sources in the tree.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.abc import MetaPathFinder
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType

#: Top-level packages that may hold compiled modules.
PACKAGES = ("amqp_router", "vhosts", "persistence", "admin_ui", "spark_analytics")
#: Set to 1 to run every module from its source, whatever was built.
UNCOMPILED_VARIABLE = "AMQP_ROUTER_UNCOMPILED"
#: The folder that holds the packages: the checkout, or site-packages.
ROOT = Path(__file__).resolve().parent.parent
#: What was built from what, relative to `ROOT`. Written by ``setup.py``, never committed.
RECORD = Path("amqp_router", "compiled.json")
_CIMPORT = re.compile(r"^\s*(?:from\s+([\w.]+)\s+cimport\s+([\w ,]+)|cimport\s+([\w.]+))", re.MULTILINE)


@dataclass(frozen=True)
class Build:
    """What the modules of one tree would be loaded as."""

    compiled: frozenset[str] = frozenset()
    #: Module that could run compiled, and why it runs from its source.
    plain: Mapping[str, str] = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        """Whether every module that can be compiled is."""
        return bool(self.compiled) and not self.plain

    def summary(self) -> str:
        """One line for ``--version``, the log and the test run."""
        if self.whole:
            return f"compiled ({len(self.compiled)} modules)"
        reasons = sorted(set(self.plain.values())) or ["nothing was compiled"]
        more = f" and {len(reasons) - 3} more reasons" if len(reasons) > 3 else ""
        text = "; ".join(reasons[:3]) + more
        if not self.compiled:
            return f"uncompiled ({text})"
        count = f"{len(self.plain)} of {len(self.plain) + len(self.compiled)} modules"
        return f"partly compiled ({count} run from source: {text})"


def file_hash(path: Path) -> str:
    """Hash of a source file's content; empty if there is no such file."""
    try:
        return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()
    except OSError:
        return ""


def read_record(root: Path = ROOT) -> dict[str, dict[str, dict[str, str]]]:
    """The build's record: ``{"modules": {module: {file: hash}}, "failed": {module: {"reason": text}}}``.

    An unreadable record counts as none: the sources run.
    """
    try:
        record = json.loads((root / RECORD).read_text())
        return {"modules": record["modules"], "failed": record["failed"]}
    except (OSError, ValueError, KeyError, TypeError):
        return {"modules": {}, "failed": {}}


def extension_of(module: str, root: Path = ROOT) -> Path | None:
    """The extension module that this interpreter would load for `module`, if there is one."""
    stem = root.joinpath(*module.split("."))
    for suffix in EXTENSION_SUFFIXES:
        path = stem.with_name(stem.name + suffix)
        if path.exists():
            return path
    return None


def inspect_build(root: Path = ROOT) -> Build:
    """Compare the record with the sources under `root`: what need not be built again."""
    record = read_record(root)
    modules = record["modules"]
    plain = {module: failure["reason"] for module, failure in record["failed"].items()}
    if os.environ.get(UNCOMPILED_VARIABLE, "") not in ("", "0"):
        return Build(plain=dict.fromkeys([*modules, *plain], f"{UNCOMPILED_VARIABLE} is set"))
    hashes = {name: file_hash(root / name) for name in {name for files in modules.values() for name in files}}
    for module, files in modules.items():
        edited = [name for name, was in files.items() if hashes[name] != was]
        if edited:
            plain[module] = f"{edited[0]} changed since it was compiled"
        elif extension_of(module, root) is None:
            plain[module] = f"{module} was compiled for another Python"
    _spread(modules, plain)
    return Build(frozenset(modules) - plain.keys(), plain)


def _spread(modules: Mapping[str, Mapping[str, str]], plain: dict[str, str]) -> None:
    """Add to `plain` the modules that were built against one which is in it."""
    needs = {
        module: {name.removesuffix(".pxd").replace("/", ".") for name in files if name.endswith(".pxd")}
        for module, files in modules.items()
    }
    found = True
    while found:
        found = False
        for module in modules.keys() - plain.keys():
            without = sorted(needs[module] & plain.keys())
            if without:
                plain[module] = plain[without[0]]
                found = True


def loadable(build: Build, root: Path = ROOT) -> Build:
    """Those modules of `build` that fit together, in a process where the others run from their sources."""
    modules = read_record(root)["modules"]
    plain = dict(build.plain)
    known = 0
    while len(plain) > known:
        known = len(plain)
        for module in list(plain):
            for name in cimported(module, root) & build.compiled:
                plain.setdefault(name, plain[module])
        _spread(modules, plain)
    return Build(build.compiled - plain.keys(), plain)


def cimported(module: str, root: Path = ROOT) -> set[str]:
    """The modules that a module's ``.pxd`` or ``.pyx`` cimports, by what stands there now."""
    found: set[str] = set()
    for suffix in (".pxd", ".pyx"):
        try:
            text = root.joinpath(*module.split(".")).with_suffix(suffix).read_text(errors="replace")
        except OSError:
            continue
        for package, names, whole in _CIMPORT.findall(text):
            found.add(whole or package)
            found.update(f"{package}.{name.split()[0]}" for name in names.split(",") if name.strip())
    return found


class SourceOnlyFinder(MetaPathFinder):
    """Finds the source of every module of `PACKAGES` that must not be loaded compiled."""

    def __init__(self, compiled: frozenset[str]) -> None:
        self._compiled = compiled
        #: By folder. A start asks for 300 modules; each finder lists its folder once, and when it changes.
        self._sources: dict[str, FileFinder] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Spec of the source, or None: Python's own finders then decide.

        Raises:
            ModuleNotFoundError: there is only an extension module, which must not be loaded.
        """
        if path is None or fullname in self._compiled or fullname.partition(".")[0] not in PACKAGES:
            return None
        for folder in path:
            finder = self._sources.get(folder)
            if finder is None:
                finder = self._sources[folder] = FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES))
            spec = finder.find_spec(fullname)
            if spec is not None and spec.loader is not None:
                return spec
        for folder in path:
            if extension_of(fullname.rpartition(".")[2], Path(folder)) is not None:
                # Written in Cython alone, so there is nothing to run in its place; whoever imports it copes.
                raise ModuleNotFoundError(f"{fullname} must not be loaded compiled", name=fullname)
        return None

    def invalidate_caches(self) -> None:
        """Forget the folders' contents, as `importlib.invalidate_caches` asks of every finder."""
        self._sources.clear()


#: What this process runs; set by `install`.
build = Build()


def install() -> None:
    """Put the rule in force for this process. Calling it again changes nothing."""
    global build  # noqa: PLW0603 - one import system a process, so one answer
    if not any(isinstance(finder, SourceOnlyFinder) for finder in sys.meta_path):
        build = loadable(inspect_build())
        sys.meta_path.insert(0, SourceOnlyFinder(build.compiled))

"""Build of the compiled modules; everything else stands in pyproject.toml.

A module with a ``.pxd`` beside it is compiled by Cython where a C compiler is. Without one, or when a module
does not compile, the install goes on with a warning and that module runs from its source: the speed is lost,
nothing else. ``AMQP_ROUTER_REQUIRE_COMPILED=1`` makes that an error.

The build records what it made and from which content (``amqp_router/compiled.json``, read by
``amqp_router/compiled.py``), and builds only what that record does not already hold.
"""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from setuptools import setup
from setuptools.command.build_ext import build_ext
from setuptools.extension import Extension

#: Modules with a ``.pxd`` beside them, each after those whose ``.pxd`` it uses.
#: A module enters the list with a measured gain.
COMPILED = [
    "amqp_router.protocol._buf",
    "amqp_router.protocol.message",
    "amqp_router.protocol.tick",
    "amqp_router.protocol.output",
    "amqp_router.protocol.nested",
    "amqp_router.protocol.frames",
    "amqp_router.protocol.input",
    "amqp_router.protocol.fields",
    "amqp_router.protocol.properties",
    "persistence.memory",
    "persistence.log.format.index",
    "persistence.log.format.segment",
    "persistence.log.format.record",
    "persistence.log.format.sections",
    "persistence.log.format.messages",
    "persistence.log.format.settles",
    "persistence.log.format.returns",
    "persistence.log.routing.names",
    "persistence.log.routing.open_batch",
    "persistence.log.routing.recorder",
    "persistence.plan",
    "persistence._flush",
    "amqp_router.arenas",
    "persistence.log.queue.gone",
    "persistence.log.queue.partition",
    "persistence.log.queue.log_reader",
    "persistence.log.sync.checkpoints",
    "persistence.log.sync.ports",
    "persistence.log.sync.due",
    "persistence.log.sync.writer",
    "persistence.log.sync.round",
    "persistence.log.sync.jobs",
    "persistence.log.sync.marks",
    "persistence.log.sync.log_sync",
    "persistence.log.queue.closed",
    "persistence.log.queue.epochs",
    "persistence.log.queue.taken",
    "persistence.log.queue.batches",
    "persistence.log.queue.copies",
    "persistence.log.queue.saving",
    "persistence.log.queue.queue_log",
    "persistence.log.queue.fold",
    "vhosts.counters",
    "vhosts.publishing.ports",
    "vhosts.unstored",
    "vhosts.declared",
    "vhosts.queues.destination",
    "vhosts.queues.handle",
    "vhosts.queues.contents",
    "vhosts.queues.dispatch",
    "vhosts.queues.expiry",
    "vhosts.queues.receipts",
    "vhosts.queues.ready.order",
    "vhosts.queues.ready.returned",
    "vhosts.queues.ready.ring",
    "vhosts.queues.ready.fifo",
    "vhosts.queues.ready.priority",
    "vhosts.queues.ready.quorum",
    "vhosts.queues.limits",
    "vhosts.queues.standing",
    "vhosts.queues.death",
    "vhosts.queues.drops",
    "vhosts.queues.mortal",
    "vhosts.queues.queue",
    "vhosts.spread_map",
    "vhosts.exchanges.exchange",
    "vhosts.exchanges.topic_trie",
    "vhosts.exchanges.headers_index",
    "vhosts.exchanges.walk",
    "vhosts.exchanges.route",
    "vhosts.exchanges.router",
    "vhosts.publishing.spread",
    "vhosts.publishing.publisher",
    "vhosts.letter",
    "vhosts.waiting_letters",
    "vhosts.dead_letters",
    "amqp_router.channel.intake",
    "amqp_router.channel.listener",
    "amqp_router.channel.aside",
    "amqp_router.channel.older",
    "amqp_router.channel.tags",
    "amqp_router.channel.consumer",
    "amqp_router.channel.delivery",
    "amqp_router.channel.asking",
    "amqp_router.channel.confirms",
    "amqp_router.channel.publishing",
    "amqp_router.channel.committing",
    "amqp_router.connection.alarms",
    "amqp_router.connection.pressure",
    "amqp_router.connection.ticker",
    "amqp_router.connection.turn",
    "amqp_router.connection.writing",
    "amqp_router.connection.slices",
    "amqp_router.connection.dispatch",
    "amqp_router.connection.machine",
    "admin_ui.documents.table_text",
]

ROOT = Path(__file__).resolve().parent
DIRECTIVES = {
    "language_level": 3,
    "annotation_typing": False,
    "boundscheck": False,
    "wraparound": False,
    "initializedcheck": False,
    "cdivision": True,
}


def _load_compiled() -> ModuleType:
    """``amqp_router/compiled.py`` by its path, as importing the package would put its rule in force here."""
    spec = importlib.util.spec_from_file_location("_compiled", ROOT / "amqp_router" / "compiled.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["_compiled"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


compiled = _load_compiled()
REQUIRED = os.environ.get("AMQP_ROUTER_REQUIRE_COMPILED", "") not in ("", "0")


def source_of(module: str) -> Path:
    """The file Cython compiles, relative to the root: the ``.pyx`` twin if there is one."""
    stem = Path(*module.split("."))
    pyx = stem.with_suffix(".pyx")
    return pyx if (ROOT / pyx).exists() else stem.with_suffix(".py")


def compiler_problem() -> str:
    """Why C code cannot be compiled here, found by compiling a line of it; empty if it can."""
    command = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()
    if shutil.which(command[0]) is None:
        return f"no C compiler ({command[0]}) when it was installed; Debian: apt-get install gcc python3-dev"
    include = ["-I", sysconfig.get_path("include")]
    probe = subprocess.run(
        [*command, *include, "-x", "c", "-c", "-", "-o", os.devnull],
        input="#include <Python.h>\n",
        capture_output=True,
        text=True,
        check=False,
    )
    if probe.returncode:
        return "no Python.h when it was installed; Debian: apt-get install python3-dev"
    return ""


class CythonModule(Extension):
    """An extension that fits into a set, where Cython puts those that fail; setuptools' own has no hash."""

    __hash__ = object.__hash__


class OptionalBuild(build_ext):
    """Compiles where a C compiler is; elsewhere the modules run as ordinary Python."""

    def initialize_options(self) -> None:
        super().initialize_options()
        self.parallel = os.cpu_count()
        self.force = True  # what is built is what the record says has changed; file times decide nothing
        self._tried = False
        self._failed: dict[str, str] = {}
        self._files: dict[str, dict[str, str]] = {}

    def run(self) -> None:
        """Build what changed, then write the record beside what was built."""
        in_place = bool(self.inplace or self.editable_mode)
        (ROOT / "build").mkdir(exist_ok=True)
        with open(ROOT / "build" / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # two builds of one tree would write the same files
            try:
                self.extensions = list(self._to_build(in_place, {ext.name: ext for ext in self.extensions}))
                if self.extensions:
                    super().run()
            except Exception as error:  # whatever the tool chain says, the sources still run
                self._give_up(self.extensions, str(error))
            known = compiled.read_record(ROOT)["failed"] if in_place else {}
            self._write_record(ROOT if in_place else Path(self.build_lib))
        if self._failed and REQUIRED:
            raise SystemExit(f"AMQP_ROUTER_REQUIRE_COMPILED is set and {self._failures()}")
        if self._failed and (self._tried or known.keys() != self._failed.keys()):
            print(f"Note: {self._failures()}. All works the same, only slower.", file=sys.stderr)

    def _failures(self) -> str:
        reasons = sorted(set(self._failed.values()))
        return f"{len(self._failed)} of {len(COMPILED)} modules run uncompiled ({'; '.join(reasons)})"

    def _to_build(self, in_place: bool, extensions: dict[str, Extension]) -> Iterable[Extension]:
        """Those of `extensions` that the record of this tree does not already hold, C code generated."""
        if in_place:
            recorded = compiled.read_record(ROOT)["modules"]
            ready = compiled.inspect_build(ROOT).compiled
            self._files = {name: recorded[name] for name in COMPILED if name in ready}
        missing = dict.fromkeys(name for name in COMPILED if name not in self._files).keys()
        if not missing:
            return
        problem = compiler_problem()
        if problem:
            self._failed = dict.fromkeys(missing, problem)
            return
        try:
            from Cython.Build import cythonize
            from Cython.Build.Dependencies import create_dependency_tree
        except ImportError:
            self._failed = dict.fromkeys(missing, "no Cython when it was installed")
            return
        self._tried = True
        print(f"Compiling {len(missing)} of {len(COMPILED)} modules ...", flush=True)
        # Hashed before Cython reads them: an edit during the build leaves a record that no longer fits.
        tree = create_dependency_tree()
        sources = {name: source_of(name) for name in missing}
        hashes = {
            name: self._hashes(source, tree.all_dependencies(str(source))) for name, source in sources.items()
        }
        generated = cythonize(
            [CythonModule(name, [str(source)]) for name, source in sources.items()],
            build_dir="build/cython",
            compiler_directives=DIRECTIVES,
            nthreads=os.cpu_count(),
            exclude_failures=True,  # it has printed what is wrong with them
            force=True,
            quiet=True,
        )
        for module in generated:
            self._files[module.name] = hashes[module.name]
            extensions[module.name].sources = module.sources
            yield extensions[module.name]
        for name in missing - self._files.keys():
            self._failed[name] = f"{sources[name]} does not compile"

    @staticmethod
    def _hashes(source: Path, dependencies: Iterable[str]) -> dict[str, str]:
        """Hash of each of our files a module is made of: ``.py``, ``.pyx``, ``.pxd`` and what it cimports."""
        own = [path for path in map(source.with_suffix, (".py", ".pxd")) if (ROOT / path).exists()]
        cimported = [Path(os.path.relpath(name, ROOT)) for name in dependencies]
        ours = {path for path in [source, *own, *cimported] if path.parts[0] in compiled.PACKAGES}
        return {path.as_posix(): compiled.file_hash(ROOT / path) for path in sorted(ours)}

    def build_extension(self, ext: Extension) -> None:
        try:
            super().build_extension(ext)
        except Exception as error:
            self._give_up([ext], str(error))

    def copy_extensions_to_source(self) -> None:
        try:
            self.extensions = [ext for ext in self.extensions if ext.name not in self._failed]
            super().copy_extensions_to_source()
        except Exception as error:
            self._give_up(self.extensions, str(error))

    def get_outputs(self) -> list[str]:
        return [output for output in super().get_outputs() if os.path.exists(output)]

    def _give_up(self, extensions: Iterable[Extension], reason: str) -> None:
        for ext in extensions:
            self._failed[ext.name] = f"its build failed ({reason})"
            self._files.pop(ext.name, None)

    def _write_record(self, root: Path) -> None:
        record: dict[str, Any] = {
            "modules": self._files,
            "failed": {name: {"reason": reason} for name, reason in self._failed.items()},
        }
        path = root / compiled.RECORD
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(path.name + ".new")
        new.write_text(json.dumps(record, indent=1, sort_keys=True))
        new.replace(path)


if __name__ == "__main__":
    os.chdir(ROOT)
    setup(
        ext_modules=[
            Extension(name, [source_of(name).as_posix()], extra_compile_args=["-O2", "-g0", "-w"])
            for name in COMPILED
        ],
        cmdclass={"build_ext": OptionalBuild},
    )

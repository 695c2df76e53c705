"""Build of the compiled modules; everything else stands in pyproject.toml."""

from __future__ import annotations

import os
import sys

from setuptools import setup
from setuptools.command.build_ext import build_ext
from setuptools.extension import Extension

#: Modules with a ``.pxd`` beside them. A module enters the list with a measured gain.
COMPILED = [
    "amqp_router.protocol._buf",
    "amqp_router.protocol.message",
]


def extensions() -> list[Extension]:
    from Cython.Build import cythonize

    modules = []
    for name in COMPILED:
        stem = name.replace(".", "/")
        source = stem + (".pyx" if os.path.exists(stem + ".pyx") else ".py")
        if os.path.exists(source):
            modules.append(Extension(name, [source], extra_compile_args=["-O2"]))
    result: list[Extension] = cythonize(
        modules,
        build_dir="build/cython",
        compiler_directives={
            "language_level": 3,
            "annotation_typing": False,
            "boundscheck": False,
            "wraparound": False,
            "initializedcheck": False,
            "cdivision": True,
        },
    )
    return result


class OptionalBuild(build_ext):
    """Compiles where a C compiler is; elsewhere the modules run as ordinary Python."""


if __name__ == "__main__":
    setup(ext_modules=extensions(), cmdclass={"build_ext": OptionalBuild})

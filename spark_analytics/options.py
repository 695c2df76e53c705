"""The options of a read. All are checked here; for an unknown one the error names the nearest.

Names are those of Spark's Kafka source where it has the same option. Values are strings from Spark, or plain
Python values from ``read_arrow``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from .errors import OptionError
from .schema import LATER_COLUMNS, Column, columns_of, nearest, pick

EARLIEST, LATEST = -2, -1
VERIFY = ("all", "tail", "none")

#: Name, default as shown, meaning; docs/analytics.md has the same table.
OPTIONS: dict[str, tuple[str, str]] = {
    "path": ("", "data directory of a broker"),
    "logdirs": ("", "several data directories: comma list, or JSON list; `*`, `?` and `[...]` match names"),
    "table": ("routing", "`routing` or `messages`"),
    "columns": ("the narrow ones", "comma list of columns, or `*`"),
    "vhosts": ("all", "only these virtual hosts: comma list, or JSON list"),
    "exchanges": ("all", "only messages published to these exchanges: comma list, or JSON list"),
    "queues": ("all", "only messages in (table routing: routed to) these queues: comma list, or JSON list"),
    "partitions": ("all", "only these partitions: comma list of numbers"),
    "startingTimestamp": ("", "only from this time on: ISO 8601 (UTC unless it says else), or ms since 1970"),
    "endingTimestamp": ("", "only before this time: as startingTimestamp"),
    "startingOffsets": (
        "earliest",
        '`earliest`, `latest`, or JSON `{"<node>/<log id>": {"<partition>": offset}}`; '
        "offset -2: earliest, -1: latest; where one directory is read, `<log id>` alone will do, "
        "and for a routing log its virtual host",
    ),
    "endingOffsets": (
        "latest",
        "as startingOffsets, exclusive; a log that the JSON does not name is not read",
    ),
    "maxOffsetsPerTrigger": ("", "streams: most offsets in one batch, shared by the logs as they need it"),
    "splitBytes": ("134217728", "most bytes of log in one task"),
    "batchRows": ("65536", "most rows in one Arrow batch"),
    "verify": ("all", "checksums: `all`; `tail`, of each log's last segment; `none`, of batch headers alone"),
    "failOnDataLoss": ("true", "error if records are missing, gone since the table was loaded, or damaged"),
}
_CANONICAL = {name.lower(): name for name in OPTIONS}

#: March 1973. As seconds this is the year 5138.
_LEAST_MS = 100_000_000_000

Offsets = dict[str, dict[int, int]]


@dataclass(frozen=True, slots=True)
class Selection:
    """The wanted rows; None = no limit. Times are in microseconds; ``end_us`` is exclusive."""

    vhosts: frozenset[str] | None = None
    exchanges: frozenset[str] | None = None
    queues: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    start_us: int | None = None
    end_us: int | None = None


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The checked options."""

    directories: tuple[str, ...]
    table: str
    columns: tuple[Column, ...]
    columns_given: bool
    selection: Selection
    starting: int | Offsets
    ending: int | Offsets
    #: None = no limit.
    offsets_max: int | None
    split_bytes: int
    batch_rows: int
    verify: str
    fail_on_data_loss: bool


def parse_options(options: Mapping[str, Any]) -> ReadOptions:
    """Check and convert; names match without regard to case.

    Raises:
        OptionError: an option is unknown, or a value is invalid; the text says what is valid.
    """
    given: dict[str, Any] = {}
    for name, value in options.items():
        if name.lower() not in _CANONICAL:
            raise OptionError(f"option {name!r} does not exist; {nearest(name, OPTIONS)}")
        if value is not None:
            given[_CANONICAL[name.lower()]] = value
    table = str(given.get("table", "routing"))
    columns_of(table)
    names = _names(given, "columns")
    directories = [str(given["path"])] if "path" in given else []
    directories += _names(given, "logdirs") or []
    if not all(directories):
        raise OptionError("option 'path' or 'logdirs' names an empty path; the working directory is '.'")
    if not directories:
        raise OptionError("say which data directory to read: .option('path', D) or .option('logdirs', ...)")
    start_us, end_us = _time(given, "startingTimestamp"), _time(given, "endingTimestamp")
    if start_us is not None and end_us is not None and start_us >= end_us:
        raise OptionError("option 'startingTimestamp' is not before option 'endingTimestamp'")
    return ReadOptions(
        directories=tuple(directories),
        table=table,
        columns=pick(table, names),
        columns_given=names is not None,
        selection=Selection(
            vhosts=_set(given, "vhosts"),
            exchanges=_set(given, "exchanges"),
            queues=_set(given, "queues"),
            partitions=_numbers(given, "partitions"),
            start_us=start_us,
            end_us=end_us,
        ),
        starting=_offsets(given, "startingOffsets", EARLIEST),
        ending=_offsets(given, "endingOffsets", LATEST),
        offsets_max=_whole(given, "maxOffsetsPerTrigger", 0, 1) if "maxOffsetsPerTrigger" in given else None,
        split_bytes=_whole(given, "splitBytes", 128 << 20, 1 << 16),
        batch_rows=_whole(given, "batchRows", 1 << 16, 1),
        verify=_one_of(given, "verify", VERIFY),
        fail_on_data_loss=_flag(given, "failOnDataLoss", "true"),
    )


def check_batch(options: ReadOptions) -> None:
    """Check that the options fit a read that is no stream.

    Raises:
        OptionError: one is for streams alone.
    """
    if options.offsets_max is not None:
        raise OptionError(
            "option 'maxOffsetsPerTrigger' is for spark.readStream; a batch is limited by 'endingOffsets'"
        )


def check_stream(options: ReadOptions, names: Iterable[str]) -> None:
    """Check that the options and the wanted columns (``names``) fit a stream.

    Raises:
        OptionError: they ask for an end, or for columns that say what happens to a message later.
    """
    for name, is_given in (
        ("endingOffsets", options.ending != LATEST),
        ("endingTimestamp", options.selection.end_us is not None),
    ):
        if is_given:
            raise OptionError(
                f"option {name!r} is not for streams, which have no end; read a part with spark.read, or "
                "stop with trigger(availableNow=True)"
            )
    later = [name for name in names if name in LATER_COLUMNS]
    others = [column.name for column in columns_of(options.table) if column.name not in LATER_COLUMNS]
    if later:
        raise OptionError(
            f"column {later[0]!r} cannot be read as a stream: it says what became of a message after it was "
            f"written, and a stream gives each row once; the columns for streams are {', '.join(others)}"
        )


def _names(given: Mapping[str, Any], name: str) -> list[str] | None:
    """The names in a comma list, a JSON list, or a Python list of strings. An empty string is one empty
    name.
    """
    value = given.get(name)
    if value is None:
        return None
    if isinstance(value, str):
        if value.lstrip().startswith("["):
            try:
                value = json.loads(value)
            except ValueError as error:
                raise OptionError(f"option {name!r} is no JSON list: {error}") from None
        else:
            return [part.strip() for part in value.split(",")]
    if not isinstance(value, Iterable):
        raise OptionError(f"option {name!r} takes a comma list, not {value!r}")
    return [str(part) for part in value]


def _set(given: Mapping[str, Any], name: str) -> frozenset[str] | None:
    names = _names(given, name)
    return None if names is None else frozenset(names)


def _numbers(given: Mapping[str, Any], name: str) -> frozenset[int] | None:
    parts = [str(given[name])] if isinstance(given.get(name), int) else _names(given, name)
    if parts is None:
        return None
    if not all(part.isdecimal() for part in parts):
        raise OptionError(f"option {name!r} takes a comma list of numbers, not {given[name]!r}")
    return frozenset(int(part) for part in parts)


def _whole(given: Mapping[str, Any], name: str, default: int, least: int) -> int:
    value = str(given.get(name, default))
    if not value.isdecimal() or int(value) < least:
        raise OptionError(f"option {name!r} takes a whole number of at least {least}, not {value!r}")
    return int(value)


def _flag(given: Mapping[str, Any], name: str, default: str) -> bool:
    value = str(given.get(name, default)).lower()
    if value not in ("true", "false"):
        raise OptionError(f"option {name!r} takes true or false, not {given[name]!r}")
    return value == "true"


def _one_of(given: Mapping[str, Any], name: str, values: tuple[str, ...]) -> str:
    value = str(given.get(name, values[0]))
    if value not in values:
        raise OptionError(f"option {name!r} takes {', '.join(values)}; not {value!r}")
    return value


def _time(given: Mapping[str, Any], name: str) -> int | None:
    """Microseconds since 1970; a time without a zone is UTC."""
    value = given.get(name)
    if value is None:
        return None
    if isinstance(value, str):
        if value.lstrip("-").isdecimal():
            return _of_milliseconds(name, int(value))
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise OptionError(
                f"option {name!r} takes a time as 2026-01-31T12:00:00Z, "
                f"or milliseconds since 1970, not {value!r}"
            ) from None
    if isinstance(value, datetime):
        return microseconds(value)
    if isinstance(value, int):
        return _of_milliseconds(name, value)
    raise OptionError(f"option {name!r} takes a time, not {value!r}")


def _of_milliseconds(name: str, value: int) -> int:
    if 0 < value < _LEAST_MS:
        raise OptionError(
            f"option {name!r}: {value} would be in {1970 + value // 31_556_952_000}, it looks like seconds; "
            f"milliseconds are wanted ({value}000), or a time as 2026-01-31T12:00:00Z"
        )
    return value * 1000


def microseconds(value: datetime) -> int:
    """Microseconds since 1970, exactly; a time without a zone is UTC."""
    if value.tzinfo is None:
        value = value.replace(tzinfo=UTC)
    since = value - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _offsets(given: Mapping[str, Any], name: str, default: int) -> int | Offsets:
    value: Any = given.get(name)
    if value is None:
        return default
    if isinstance(value, str):
        if value in ("earliest", "latest"):
            return EARLIEST if value == "earliest" else LATEST
        try:
            value = json.loads(value)
        except ValueError:
            value = None
    try:
        offsets = {
            str(log): {int(partition): int(offset) for partition, offset in partitions.items()}
            for log, partitions in value.items()
        }
        if any(number < EARLIEST for partitions in offsets.values() for number in partitions.values()):
            raise ValueError
        return offsets
    except (AttributeError, TypeError, ValueError):
        raise OptionError(
            f"option {name!r} takes earliest, latest or JSON as "
            f'{{"<node>/<log id>": {{"<partition>": offset}}}}, not {given[name]!r}; '
            "spark_analytics.end_offsets(path) makes such"
        ) from None

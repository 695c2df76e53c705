from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from spark_analytics.errors import OptionError
from spark_analytics.options import EARLIEST, LATEST, OPTIONS, parse_options
from spark_analytics.schema import TABLES

DOCS = Path(__file__).resolve().parents[2] / "docs" / "analytics.md"


def parse(**options: Any) -> Any:
    return parse_options({"path": "/data"} | options)


def test_defaults() -> None:
    options = parse()
    assert options.directories == ("/data",)
    assert (options.table, options.verify, options.fail_on_data_loss) == (
        "routing",
        "all",
        True,
    )
    assert (options.starting, options.ending) == (EARLIEST, LATEST)
    assert (options.split_bytes, options.batch_rows) == (128 << 20, 65536)
    assert "route_id" not in [column.name for column in options.columns]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"tabel": "routing"}, "option 'tabel' does not exist; did you mean 'table'"),
        ({"startingOffset": "1"}, "did you mean 'startingOffsets'"),
        ({"table": "mesages"}, "table 'mesages' does not exist; did you mean 'messages'"),
        ({"columns": "exchnage"}, "did you mean 'exchange'"),
        ({"columns": "body"}, "column 'body' does not exist in table 'routing'"),
        ({"columns": "offset,offset"}, "column 'offset' is named twice"),
        ({"verify": "some"}, "all, tail, none"),
        ({"pushdown": "true"}, "option 'pushdown' does not exist"),
        ({"failOnDataLoss": "1"}, "true or false"),
        ({"splitBytes": "1MB"}, "whole number"),
        ({"batchRows": "0"}, "at least 1"),
        ({"partitions": "a"}, "comma list of numbers"),
        ({"startingTimestamp": "yesterday"}, "2026-01-31T12:00:00Z"),
        (
            {"startingTimestamp": "2000000000000", "endingTimestamp": "1000000000000"},
            "option 'startingTimestamp' is not before option 'endingTimestamp'",
        ),
        ({"startingOffsets": "begin"}, "earliest, latest or JSON"),
        ({"endingOffsets": '{"a": 3}'}, "earliest, latest or JSON"),
        ({"startingOffsets": '{"a": {"0": -3}}'}, "earliest, latest or JSON"),
        ({"startingTimestamp": "1767225600"}, "1767225600 would be in 1970, it looks like seconds"),
        ({"endingTimestamp": 1767225600}, "milliseconds are wanted (1767225600000)"),
        ({"path": ""}, "names an empty path"),
        ({"vhosts": '["a"'}, "no JSON list"),
    ],
)
def test_refused(options: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError, match=re.escape(text)):
        parse(**options)


def test_no_directory() -> None:
    with pytest.raises(OptionError, match="path"):
        parse_options({})


def test_lists() -> None:
    selection = parse(vhosts="/, other", exchanges='["a,b", ""]', queues=["q"], partitions="0,2").selection
    assert selection.vhosts == {"/", "other"}
    assert selection.exchanges == {"a,b", ""}
    assert selection.queues == {"q"}
    assert selection.partitions == {0, 2}


def test_times() -> None:
    expected = 1_767_225_600_000_000
    for value in ("2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00", "2026-01-01", "1767225600000"):
        assert parse(startingTimestamp=value).selection.start_us == expected
    assert parse(endingTimestamp=datetime(2026, 1, 1, tzinfo=UTC)).selection.end_us == expected


def test_names_match_without_case() -> None:
    assert parse_options({"PATH": "/d", "BATCHROWS": "5"}).batch_rows == 5


def test_every_option_and_column_is_documented() -> None:
    text = DOCS.read_text()
    for name, (default, meaning) in OPTIONS.items():
        assert f"| `{name}` | {default} | {meaning} |" in text
    for columns in TABLES.values():
        for column in columns:
            name = f"`{column.name}`" if column.default else f"`{column.name}` *"
            assert f"| {name} | {column.sql.replace('<', '&lt;')} | {column.meaning} |" in text

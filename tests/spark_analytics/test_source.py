"""The data source in a real Spark session."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

import spark_analytics
from amqp_router.protocol.fields import encode_plain
from spark_analytics.doctor import first_line
from spark_analytics.schema import TABLES, arrow_schema, ddl, pick

from .encoder import (
    Run,
    Sent,
    messages_batch,
    name,
    queue_log,
    routing_batch,
    routing_log,
    stamp,
    write_marks,
)

T0 = 1_700_000_000_000_000  # 2023-11-14 22:13:20
HOUR = 3600 * 1_000_000
NAMES = [
    name("flights", "all", "ua"),
    name("flights", "all"),
    name("air", "q"),
    name("none"),
]  # by crc32: 0, 0, 1, 1
UNROUTABLE, RETURNED = 4, 8


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two routing logs and two queues."""
    data = tmp_path_factory.mktemp("source")
    stamp(data)
    first, second = routing_log(data, "/", NAMES, partitions=2)
    for number in range(40):
        at = T0 + number * HOUR // 10
        first.append(
            routing_batch(
                first.end,
                [
                    Run(0, b"UA.EWR.IAH", at, 10, body_size=100),
                    Run(1, b"DL.JFK.ATL", at + 1, 5, body_size=10),
                ],
            )
        )
    first.roll()
    first.append(routing_batch(first.end, [Run(1, b"AA", T0 + 5 * HOUR)]))
    second.append(routing_batch(0, [Run(2, b"q", T0, 3), Run(3, b"x", T0, 2, flags=UNROUTABLE | RETURNED)]))
    logs = [first, second]
    for queue, count in (("all", 100), ("q", 3)):
        log = queue_log(data, "/", queue, (queue * 32).encode().hex()[:32])
        for base in range(0, count, 10):
            made = []
            for offset in range(base, min(base + 10, count)):
                table = encode_plain({"tail": f"N{offset % 7}", "delay": offset})
                seconds = T0 // 1_000_000 + offset * 60
                raw = (0x2000 | 0x1000 | 0x0040).to_bytes(2) + table + b"\x02" + seconds.to_bytes(8)
                made.append(Sent(offset, T0 + offset, b"flights", b"UA", raw, b"body%d" % offset, 1))
            log.append(messages_batch(base, made[-1].offset, made))
        logs.append(log)
    write_marks(data, logs)
    return data


def load(spark: Any, data: Path, **options: Any) -> Any:
    return spark.read.format("amqp_router").options(**options).load(str(data))


def test_schemas_are_what_spark_expects() -> None:
    from pyspark.sql.types import _parse_datatype_json_string

    for columns in TABLES.values():
        parts = {
            "string": '"string"',
            "int": '"integer"',
            "bigint": '"long"',
            "boolean": '"boolean"',
            "binary": '"binary"',
            "timestamp": '"timestamp"',
            "array<string>": '{"type":"array","elementType":"string","containsNull":true}',
            "map<string,string>": '{"type":"map","keyType":"string","valueType":"string",'
            '"valueContainsNull":true}',
        }
        fields = ",".join(
            f'{{"name":"{column.name}","type":{parts[column.sql]},"nullable":true,"metadata":{{}}}}'
            for column in columns
        )
        schema = _parse_datatype_json_string(f'{{"type":"struct","fields":[{fields}]}}')
        assert isinstance(schema, StructType)
        assert to_arrow_schema(schema, timezone="UTC").equals(arrow_schema(columns))
        assert ddl(columns[1:2]) == "`vhost` string COMMENT 'virtual host'"


def test_routing_in_sql(spark: Any, data: Path) -> None:
    load(spark, data).createOrReplaceTempView("routing")
    rows = spark.sql(
        "SELECT exchange, count(*) n, sum(fanout) copies, count_if(unroutable) lost, sum(body_size) bytes "
        "FROM routing GROUP BY exchange ORDER BY exchange"
    ).collect()
    assert [tuple(row) for row in rows] == [
        ("air", 3, 3, 0, 0),
        ("flights", 601, 40 * 25 + 1, 0, 40 * 1050),
        ("none", 2, 0, 2, 0),
    ]
    where = spark.sql("SELECT DISTINCT routing_key FROM routing WHERE array_contains(queues, 'ua')")
    assert [row[0] for row in where.collect()] == ["UA.EWR.IAH"]


def test_every_column_of_both_tables(spark: Any, data: Path) -> None:
    for table in TABLES:
        ours = spark_analytics.read_arrow(data, table=table, columns="*")
        theirs = load(spark, data, table=table, columns="*").toArrow()
        assert theirs.num_rows == ours.num_rows
        order = [("vhost", "ascending"), ("partition", "ascending"), ("offset", "ascending")]
        if table == "messages":
            order.insert(1, ("queue", "ascending"))
        assert theirs.sort_by(order).to_pylist() == ours.sort_by(order).to_pylist()


def test_messages_with_headers(spark: Any, data: Path) -> None:
    table = load(spark, data, table="messages", columns="queue,message_timestamp,headers,body")
    rows = table.filter("headers['tail'] = 'N3' and queue = 'all'").orderBy("message_timestamp").collect()
    assert len(rows) == 14
    assert bytes(rows[0].body) == b"body3"
    assert rows[0].headers == {"tail": "N3", "delay": "3"}
    assert str(rows[0].message_timestamp) == "2023-11-14 22:16:20"


def test_a_users_schema(spark: Any, data: Path) -> None:
    reader = spark.read.format("amqp_router").option("path", str(data))
    table = reader.schema("routing_key string, offset bigint").load()
    assert table.columns == ["routing_key", "offset"]
    assert table.count() == 606
    with pytest.raises(AnalysisException) as error:
        reader.schema("offset int").load().collect()
    assert first_line(error.value) == "column 'offset' has type bigint, the schema says int"
    with pytest.raises(AnalysisException) as error:
        reader.schema("ofset bigint").load().collect()
    assert "did you mean 'offset'" in first_line(error.value)
    with pytest.raises(AnalysisException) as error:
        reader.option("columns", "vhost").schema("offset bigint").load().collect()
    assert "name different columns" in first_line(error.value)


def test_names_as_spark_compares_them(spark: Any, data: Path) -> None:
    reader = spark.read.format("amqp_router").option("path", str(data))
    table = reader.schema("Routing_Key string, OFFSET bigint").load()
    assert table.columns == ["Routing_Key", "OFFSET"]
    assert table.filter("offset = 600").first()[0] == "AA"


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_to_pandas(spark: Any, data: Path) -> None:
    assert len(load(spark, data, columns="exchange,timestamp").toPandas()) == 606


def test_splits_for_the_cores_of_the_cluster(spark: Any, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registered = []
    monkeypatch.setattr(type(spark.dataSource), "register", lambda _, source: registered.append(source))
    spark_analytics.register(spark)
    monkeypatch.undo()
    options = {"path": str(data), "columns": "offset"}
    source = registered[0](options)
    assert source.cores == spark.sparkContext.defaultParallelism == 2
    assert source.reader(StructType.fromDDL("offset bigint"))._cores == 2


def test_a_session_that_found_the_source_by_itself(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark 4.0 refuses a second registration."""

    def refuse(text: str) -> Any:
        def register(_: Any, source: type) -> None:
            raise AnalysisException(f"[{text}] Data source {source.__name__!r}")

        return register

    monkeypatch.setattr(type(spark.dataSource), "register", refuse("DATA_SOURCE_ALREADY_EXISTS"))
    assert spark_analytics.register(spark) is spark
    monkeypatch.setattr(type(spark.dataSource), "register", refuse("OTHER"))
    with pytest.raises(AnalysisException, match="OTHER"):
        spark_analytics.register(spark)


def test_what_is_missing_is_said() -> None:
    for module, text in (
        ("pyarrow", "pyarrow is not installed for .*set PYSPARK_PYTHON"),
        ("pyspark.sql.datasource", "PySpark .* has no data sources in Python; amqp_router needs 4.0"),
    ):
        code = f"import sys; sys.modules[{module!r}] = None; import pyspark_amqp_router"
        result = subprocess.run(
            [sys.executable, "-c", code],
            cwd=Path(__file__).resolve().parents[2],
            capture_output=True,
            text=True,
            check=False,
        )
        assert re.search(text, result.stderr.splitlines()[-1]), result.stderr


def test_views_by_sql(spark: Any, data: Path) -> None:
    for option in (f"path '{data}'", f"logdirs '{data}'"):
        spark.sql(
            f"CREATE OR REPLACE TEMPORARY VIEW v USING amqp_router OPTIONS ({option}, columns 'offset')"
        )
        assert spark.sql("SELECT count(*) FROM v").first()[0] == 606


def test_columns_say_what_they_mean(spark: Any, data: Path) -> None:
    spark.read.format("amqp_router").load(str(data)).createOrReplaceTempView("described")
    comments = {row["col_name"]: row["comment"] for row in spark.sql("DESCRIBE described").collect()}
    assert comments == {column.name: column.meaning for column in pick("routing", None)}
    assert "'' = the default exchange" in comments["exchange"]


def test_a_table_by_sql_is_refused(spark: Any, data: Path) -> None:
    with pytest.raises(AnalysisException) as error:
        spark.sql(f"CREATE TABLE t USING amqp_router OPTIONS (logdirs '{data}')")
    assert "use CREATE TEMPORARY VIEW" in first_line(error.value)


def test_several_paths(spark: Any, data: Path) -> None:
    both = spark.read.format("amqp_router").load([str(data), f"file://{data}"])
    assert both.count() == 606  # the same one is read once
    with pytest.raises(AnalysisException):
        spark.read.format("amqp_router").load([str(data), str(data / "x")])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"tabel": "routing"}, "option 'tabel' does not exist; did you mean 'table'"),
        ({"table": "mesages"}, "table 'mesages' does not exist; did you mean 'messages'"),
        ({"columns": "exchnage"}, "did you mean 'exchange'"),
        ({"verify": "no"}, "option 'verify' takes all, tail, none; not 'no'"),
        ({"startingOffsets": '{"/": {"0": 999}}'}, "option 'startingOffsets': the routing log of virtual"),
    ],
)
def test_errors_at_load(spark: Any, data: Path, options: dict[str, str], text: str) -> None:
    with pytest.raises(AnalysisException) as error:
        load(spark, data, **options)
    assert text in first_line(error.value)


def test_a_wrong_path_is_an_error_at_load(spark: Any, data: Path) -> None:
    with pytest.raises(AnalysisException) as error:
        load(spark, data / "queues")
    assert first_line(error.value).endswith(
        "is not a data directory (it has no file amqp-router.json); "
        "name the folder given to `amqp-router serve --data-dir`"
    )


def test_a_stream_with_wrong_options_is_an_error_at_load(spark: Any, data: Path) -> None:
    for options, text in (
        ({"path": str(data), "tabel": "routing"}, "did you mean 'table'"),
        ({"path": str(data), "exchanges": "flihgts"}, "did you mean 'flights'"),
        ({"path": str(data / "none")}, "does not exist"),
    ):
        with pytest.raises(AnalysisException) as error:
            spark.readStream.format("amqp_router").options(**options).load()
        assert text in first_line(error.value)


CONDITIONS = (
    ("offset >= 600", 1),
    ("timestamp > '2023-11-15 03:13:20'", 0),
    ("partition = 1", 5),
    ("exchange in ('none', 'x')", 2),
    ("vhost = 'other'", 0),
    ("exchange = 'none' and unroutable and routing_key = 'x'", 2),
)


def test_a_table_used_again_with_other_filters(spark: Any, data: Path) -> None:
    """Spark keeps one plan per table, which must therefore not depend on a query's filters."""
    table = load(spark, data)
    for condition, count in CONDITIONS:
        assert table.filter(condition).count() == count, condition
        assert table.count() == 606
    both = table.filter("offset < 10").union(table.filter("offset >= 10"))
    assert both.count() == 606


def test_a_loaded_table_stays_as_it_was(spark: Any, tmp_path: Path) -> None:
    stamp(tmp_path)
    (log,) = routing_log(tmp_path, "/", NAMES)
    log.append(routing_batch(0, [Run(0, b"k", T0, 5)]))
    write_marks(tmp_path, [log])
    table = load(spark, tmp_path)
    assert table.count() == 5
    log.append(routing_batch(5, [Run(0, b"k", T0, 5)]))
    write_marks(tmp_path, [log])
    assert table.count() == 5
    assert load(spark, tmp_path).count() == 10


def test_nothing_there(spark: Any, tmp_path: Path) -> None:
    stamp(tmp_path)
    assert load(spark, tmp_path).collect() == []
    totals = spark_analytics.routing_stats(spark, tmp_path).totals().first()
    assert totals.asDict() == {
        "messages": 0,
        "bytes": 0,
        "unroutable": 0,
        "returned": 0,
        "refused": 0,
        "copies": 0,
        "first": None,
        "last": None,
    }


def test_statistics(spark: Any, data: Path) -> None:
    stats = spark_analytics.routing_stats(spark, data)

    def rows(table: Any) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in table.collect()]

    assert rows(stats.per_exchange()) == [
        ("/", "flights", 601, 42000, 0, 0, 1001),
        ("/", "air", 3, 0, 0, 0, 3),
        ("/", "none", 2, 0, 2, 2, 0),
    ]
    assert rows(stats.per_routing_key())[:2] == [
        ("/", "flights", "UA.EWR.IAH", 400, 40000, 0),
        ("/", "flights", "DL.JFK.ATL", 200, 2000, 0),
    ]
    assert rows(stats.per_queue()) == [("/", "all", 601, 42000), ("/", "ua", 400, 40000), ("/", "q", 3, 0)]
    assert rows(stats.unroutable()) == [("/", "none", "x", 2, 2)]
    hours = rows(stats.per_hour())
    assert [(str(row[1]), row[2]) for row in hours] == [
        ("2023-11-14 22:00:00", 125),
        ("2023-11-14 23:00:00", 150),
        ("2023-11-15 00:00:00", 150),
        ("2023-11-15 01:00:00", 150),
        ("2023-11-15 02:00:00", 30),
        ("2023-11-15 03:00:00", 1),
    ]
    amqp = rows(stats.per_hour(timestamp="amqp", queues=["all"]))
    assert [(str(row[1]), row[2]) for row in amqp] == [
        ("2023-11-14 22:00:00", 47),
        ("2023-11-14 23:00:00", 53),
    ]
    assert stats.per_hour(timestamp="amqp").groupBy().sum("messages").first()[0] == 103
    with pytest.raises(ValueError, match="'broker' or 'amqp'"):
        stats.per_hour(timestamp="utc")
    with pytest.raises(ValueError, match="belong to"):
        stats.per_hour(queues=["all"])


def test_found_without_registration(data: Path) -> None:
    """What Spark does at its first look: walk the folders of sys.path for packages named pyspark_*."""
    code = (
        "import pkgutil, importlib; "
        "assert 'pyspark_amqp_router' in [m.name for m in pkgutil.iter_modules()]; "
        "print(importlib.import_module('pyspark_amqp_router').DefaultSource.name())"
    )
    root = Path(__file__).resolve().parents[2]
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "amqp_router"

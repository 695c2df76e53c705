"""The demonstration in small: what the broker wrote is what the data set says. With Spark: ``recompute``."""

from __future__ import annotations

from pathlib import Path

import spark_analytics
from demo import flights as data
from demo import statistics, topology
from tests.demo.recompute import by_decoder, publish


def test_files_say_what_the_data_set_says(tmp_path: Path) -> None:
    flights = list(data.read(4000))
    data_dir = publish(tmp_path, flights)
    ours = statistics.of_data_set(flights)
    assert ours.unroutable
    assert statistics.differences(ours, by_decoder(data_dir)) == []
    events = spark_analytics.read_arrow(data_dir, columns="routing_key,unroutable")
    assert events["routing_key"].to_pylist() == [flight.routing_key for flight in flights]
    assert events["unroutable"].to_pylist() == [not topology.wanted(flight) for flight in flights]


def test_differences_are_named() -> None:
    ours = statistics.of_data_set(list(data.read(100)))
    other = statistics.of_data_set(list(data.read(99)))
    lines = statistics.differences(ours, other)
    assert "exchange flights: data set 100, Spark 99" in lines
    assert statistics.differences(ours, ours) == []


def test_plot_is_drawn(tmp_path: Path) -> None:
    figures = statistics.of_data_set(list(data.read(3000)))
    statistics.plot(tmp_path / "demo.png", figures)
    assert (tmp_path / "demo.png").read_bytes()[:4] == b"\x89PNG"

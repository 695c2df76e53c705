"""What the routing log calls a route: exchange, queues, and the bindings that led there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from amqp_router.protocol.tick import Tick
from persistence.log.routing.names import WideNames
from persistence.log.routing.recorder import Backlog, Recorder, RouteEntry
from tests.vhosts.exchanges.houses import House, carrying
from vhosts.exchanges import route_names
from vhosts.exchanges.route_names import NAMED_BYTES_MAX, NAMED_MAX, RouteNames
from vhosts.exchanges.router import HEADERS_BYTES_MAX


class Log:
    """Remembers what it was asked for."""

    def __init__(self) -> None:
        self.recorder = Recorder("d", Tick(lambda call: None), Backlog(), 1 << 20)
        self.exchanges: list[str] = []

    def entry(self, exchange: str, key: bytes, names: bytes | WideNames) -> RouteEntry:
        self.exchanges.append(exchange)
        return RouteEntry(self.recorder, key, names)


@pytest.fixture
def house() -> House:
    house = House()
    house.vhost.table.names = RouteNames(Log())
    return house


def names_of(entry: RouteEntry) -> bytes | WideNames | None:
    return entry.wide if entry.payload is None else entry.payload


def about(house: House, *args: Any, **kwargs: Any) -> tuple[bytes, dict[str, Any]]:
    route = house.route(*args, **kwargs)
    entry = house.vhost.table.default_entry(route) if route.entry is None else route.entry
    assert entry is not None
    assert entry is route.entry
    names = names_of(entry)
    whole = names if isinstance(names, bytes) else names.payload(names.queues, names.bindings)
    return entry.key, json.loads(whole)


def test_without_a_routing_log_a_route_has_no_entry() -> None:
    house = House()
    house.bind("q", "amq.direct", "k")
    route = house.route("amq.direct", "k")
    assert house.vhost.table.default_entry(route) is None


def test_bindings_between_exchanges_and_an_alternate(house: House) -> None:
    house.exchange("first", "topic", alternate="other")
    house.exchange("second", "fanout")
    house.exchange("other", "fanout")
    house.vhost.bind_exchange("second", "first", "a.#", {})
    house.queue("kept", durable=True)
    house.bind("kept", "second")
    house.bind("kept", "first", "*.b")
    house.bind("spare", "other", "anything")
    key, names = about(house, "first", "a.b")
    assert key == b"a.b"
    assert names == {
        "exchange": "first",
        "queues": ["kept"],
        "bindings": [
            ["first", "*.b", "kept", "queue"],
            ["first", "a.#", "second", "exchange"],
            ["second", "", "kept", "queue"],
        ],
        "durable": 1,
        "fanout": 1,
    }
    _, names = about(house, "first", "nowhere")
    assert names["queues"] == ["spare"]
    assert names["bindings"] == [["other", "anything", "spare", "queue"]]


def test_unroutable(house: House) -> None:
    _, names = about(house, "amq.direct", "nobody")
    assert names == {"exchange": "amq.direct", "queues": [], "bindings": [], "durable": 0, "fanout": 0}
    key, names = about(house, "", "nobody")
    assert key == b"nobody"
    assert names == {"exchange": "", "queues": [], "bindings": [], "durable": 0, "fanout": 0}


def test_the_default_exchange_has_no_bindings(house: House) -> None:
    house.queue("q", durable=True)
    wanted = {"exchange": "", "queues": ["q"], "bindings": [], "durable": 1, "fanout": 1}
    assert about(house, "", "q") == (b"q", wanted)
    assert about(house, "", "q") == (b"q", wanted), "by the short way, too"
    house.queue("r")
    _, names = about(house, "", "q", carrying(CC=["r"]))
    assert names == {"exchange": "", "queues": ["q", "r"], "bindings": [], "durable": 1, "fanout": 2}


def test_reply_queues_are_one_route(house: House) -> None:
    for name in ("amq.gen-1", "amq.gen-2"):
        house.bind(name, "amq.direct", name)
        house.bind(name, "amq.fanout")
    house.queue("mine", exclusive=True)
    house.bind("mine", "amq.direct", "mine")
    one, two, three = [about(house, "amq.direct", name)[1] for name in ("amq.gen-1", "amq.gen-2", "mine")]
    assert one == two == three
    assert one["queues"] == ["amq.gen-*"]
    assert one["bindings"] == [["amq.direct", "amq.gen-*", "amq.gen-*", "queue"]]
    assert about(house, "", "amq.gen-1")[1]["queues"] == ["amq.gen-*"]
    key, _ = about(house, "", "amq.gen-2")
    assert key == b"amq.gen-2", "the key is the real one"
    _, names = about(house, "amq.fanout")
    assert (names["queues"], names["fanout"]) == (["amq.gen-*"], 2)
    assert names["bindings"] == [["amq.fanout", "", "amq.gen-*", "queue"]]
    house.bind("mine", "amq.topic", "news.#")
    assert about(house, "amq.topic", "news.x")[1]["bindings"] == [
        ["amq.topic", "news.#", "amq.gen-*", "queue"]
    ]


def test_what_headers_decide_and_what_is_not_remembered(house: House) -> None:
    house.bind("q", "amq.headers", a=1)
    assert about(house, "amq.headers", "k", carrying(a=1))[1]["queues"] == ["q"]
    large = carrying(a=1, filler="x" * HEADERS_BYTES_MAX)
    one = house.route("amq.headers", "k", large)
    two = house.route("amq.headers", "k", large)
    assert one is not two
    assert one.entry is not None
    assert two.entry is not None
    assert names_of(one.entry) is names_of(two.entry), "described once"


def test_many_queues_are_cut_short(house: House) -> None:
    for number in range(NAMED_MAX + 5):
        house.bind(f"q{number}", "amq.fanout")
    _, names = about(house, "amq.fanout")
    assert names["queues"] == [f"q{number}" for number in range(NAMED_MAX)]
    assert len(names["bindings"]) == NAMED_MAX
    assert names["fanout"] == NAMED_MAX + 5


def test_long_names_are_cut_short_sooner(house: House) -> None:
    for number in range(NAMED_MAX):
        house.bind("\x01" * 200 + str(number), "amq.fanout")
    _, names = about(house, "amq.fanout")
    for kind in ("queues", "bindings"):
        size = sum(len(json.dumps(each, separators=(",", ":"))) for each in names[kind])
        assert NAMED_BYTES_MAX <= size < NAMED_BYTES_MAX + 5000
    assert names["fanout"] == NAMED_MAX


def test_routes_with_many_names_share_them(house: House) -> None:
    for number in range(20):
        house.bind(f"{number}" + "\x01" * 100, "amq.topic", f"#.{number % 3}.#")
    entries = [house.route("amq.topic", f"{key}.0").entry for key in (1, 2)]
    one, other = [names_of(entry) for entry in entries if entry is not None]
    assert isinstance(one, WideNames)
    assert isinstance(other, WideNames)
    texts = [{id(text) for text in names.queues + names.bindings} for names in (one, other)]
    shared = texts[0] & texts[1]
    assert len(shared) == 2 * 7, "those of the last word"
    entries = [house.route("amq.topic", f"{key}.0").entry for key in "xy"]
    assert len({id(names_of(entry)) for entry in entries if entry is not None}) == 1, "described once"
    _, names = about(house, "amq.topic", "1.0")
    assert sorted(names["queues"]) == sorted(f"{n}" + "\x01" * 100 for n in range(20) if n % 3 < 2)


def test_exclusive_queues_are_named_once(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    plain = route_names.json_of_names
    monkeypatch.setattr(route_names, "json_of_names", lambda names: made.append(names) or plain(names))
    for number in range(1000):
        house.queue(f"{number}", exclusive=True)
        house.bind(f"{number}", "amq.fanout")
    route = house.route("amq.fanout")
    assert route.entry is not None
    names = names_of(route.entry)
    assert isinstance(names, WideNames)
    assert names.queues == [b'"amq.gen-*"']
    assert len(made) == 3  # the exchange, the queues and the bindings


def test_queues_behind_the_first_are_not_looked_at(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[object] = []
    plain = route_names.name_of
    monkeypatch.setattr(route_names, "name_of", lambda queue: looked.append(queue) or plain(queue))
    for number in range(2 * NAMED_MAX):
        house.queue(f"{number}", exclusive=True)
        house.bind(f"{number}", "amq.fanout")
    house.queue("kept", durable=True)
    house.bind("kept", "amq.fanout")
    _, names = about(house, "amq.fanout")
    # A fanout as wide as that has its queues in no order: the named one may be among the first.
    assert (set(names["queues"]) - {"kept"}, names["fanout"]) == ({"amq.gen-*"}, 2 * NAMED_MAX + 1)
    assert names["durable"] == 1, "all queues are counted"
    assert 0 < len(looked) <= 2 * NAMED_MAX, "queues, and ends of bindings"


def test_routes_that_differ_behind_the_first_queues(house: House) -> None:
    for number in range(NAMED_MAX):
        house.bind(f"q{number}", "amq.topic", "#")
    house.bind("one", "amq.topic", "1")
    house.queue("two", durable=True)
    house.bind("two", "amq.topic", "2")
    found = [about(house, "amq.topic", key)[1] for key in "123"]
    assert [(names["durable"], names["fanout"] - NAMED_MAX) for names in found] == [(0, 1), (1, 1), (0, 0)]


def test_names_of_any_octets(house: House) -> None:
    house.bind("\udcff", "amq.direct", "\udc80é")
    key, names = about(house, "amq.direct", "\udc80é")
    assert key == b"\x80\xc3\xa9"
    assert names["bindings"] == [["amq.direct", "\udc80é", "\udcff", "queue"]]


def test_names_of_a_wide_route_are_made_without_an_encoder(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One for anything is set up anew for each list: three times as long, for a thousand bindings at once."""
    monkeypatch.setattr(route_names, "_json", lambda about: pytest.fail(f"encoded: {about}"))
    for number in range(200):
        house.bind(f'"\\\udcff{number}', "amq.topic", f"#.é\x01.{number}")
        house.bind(f'"\\\udcff{number}', "amq.topic", "#")
    _, names = about(house, "amq.topic", "é\x01.7")
    assert sorted(names["queues"]) == sorted(f'"\\\udcff{number}' for number in range(200))
    assert ["amq.topic", "#.é\x01.7", '"\\\udcff7', "queue"] in names["bindings"]


def test_a_queue_declared_again_is_described_anew(house: House) -> None:
    house.queue("q")
    assert about(house, "", "q")[1]["durable"] == 0
    house.vhost.delete_queue("q")
    house.queue("q", durable=True)
    assert about(house, "", "q")[1]["durable"] == 1
    house.bind("q", "amq.fanout")
    assert about(house, "amq.fanout")[1]["durable"] == 1
    house.vhost.delete_queue("q")
    house.bind("q", "amq.fanout")
    assert about(house, "amq.fanout")[1]["durable"] == 0

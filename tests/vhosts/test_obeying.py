from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from amqp_router.protocol.fields import decode_table, encode_plain
from tests.vhosts.fakes import FakeQueue, new_vhost
from vhosts.policies import Policy
from vhosts.vhost import VirtualHost

#: Queues that obey something new in one slice: each takes 20 to 50 microseconds, and a turn may have two.
OBEY_MAX = 25


class Slices:
    """Steps that run when the test says so."""

    def __init__(self) -> None:
        self.steps: list[Callable[[], bool]] = []

    def add(self, step: Callable[[], bool]) -> None:
        self.steps.append(step)

    def run_one(self) -> None:
        self.steps = [step for step in self.steps if not step()]


@pytest.fixture
def obeyed(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What each queue was told last, by its name."""
    told: dict[str, Any] = {}

    def obey(queue: FakeQueue, definition: Mapping[str, Any]) -> None:
        told[queue.name] = dict(definition)

    monkeypatch.setattr(FakeQueue, "obey", obey, raising=False)
    return told


def put(vhost: VirtualHost, name: str, pattern: str, **definition: Any) -> None:
    values = {key.replace("_", "-"): each for key, each in definition.items()}
    vhost.obedience.put(vhost.obedience.policies, Policy(name, pattern, values))


def test_queues_obey_from_the_start_and_follow_changes(obeyed: dict[str, Any]) -> None:
    vhost = new_vhost()
    vhost.declare_queue("before")
    put(vhost, "p", "^b", max_length=1)
    assert obeyed == {"before": {"max-length": 1}}
    vhost.declare_queue("born")
    vhost.declare_queue("other")
    assert obeyed == {"before": {"max-length": 1}, "born": {"max-length": 1}}
    operator = Policy("o", "^born$", {"max-length": 9, "expires": 5})
    vhost.obedience.put(vhost.obedience.operator_policies, operator)
    found = vhost.obedience.of(vhost.queues["born"])
    assert (found.policy and found.policy.name, found.operator) == ("p", operator)
    assert obeyed["born"] == {"expires": 5, "max-length": 1}
    put(vhost, "p", "^o", max_length=2)
    assert obeyed == {"before": {}, "born": {"expires": 5, "max-length": 9}, "other": {"max-length": 2}}
    vhost.obedience.remove(vhost.obedience.policies, "p")
    vhost.obedience.remove(vhost.obedience.operator_policies, "o")
    assert obeyed == {"before": {}, "born": {}, "other": {}}


def test_who_is_not_concerned_is_not_told(obeyed: dict[str, Any]) -> None:
    vhost = new_vhost()
    vhost.declare_queue("a")
    put(vhost, "p", "^a", max_length=1)
    obeyed.clear()
    put(vhost, "q", "^b", max_length=1)
    assert obeyed == {}


def test_very_many_queues_are_told_in_slices(obeyed: dict[str, Any]) -> None:
    slices = Slices()
    vhost = new_vhost(in_slices=slices.add)
    for number in range(10_000):
        vhost.declare_queue(f"q{number}")
    put(vhost, "p", ".*", max_length=1)
    steps, before = 0, 0
    assert 0 < len(obeyed) <= OBEY_MAX
    while slices.steps:
        assert len(obeyed) - before <= OBEY_MAX
        before = len(obeyed)
        if steps == 3:
            put(vhost, "p", ".*", max_length=2)  # meanwhile
        if steps == 5:
            vhost.declare_queue("late")
            vhost.delete_queue("q1")
        slices.run_one()
        steps += 1
    assert steps > 20
    obeyed.pop("q1", None)
    assert set(obeyed) == set(vhost.queues)
    assert all(definition == {"max-length": 2} for definition in obeyed.values())


def test_the_collector_does_not_look_at_the_list_of_those_that_are_left(obeyed: dict[str, Any]) -> None:
    """Each of its young collections would look at all queues twice, 10 ms for 10,000 of them."""
    slices = Slices()
    vhost = new_vhost(in_slices=slices.add)
    for number in range(5000):
        vhost.declare_queue(f"q{number}")
    put(vhost, "p", ".*", max_length=1)
    assert slices.steps
    queues = set(map(id, vhost.queues.values()))
    looked_at = [each for each in gc.get_objects() if type(each) is list and len(each) > 1000]
    assert not [each for each in looked_at if id(each[0]) in queues]


def test_an_alternate_exchange(obeyed: dict[str, Any]) -> None:
    vhost = new_vhost()
    arguments = decode_table(encode_plain({"alternate-exchange": "own"}), 0)[0]
    vhost.declare_exchange("declared", "direct", arguments=arguments)
    vhost.declare_exchange("plain", "direct")
    generation = vhost.generation
    put(vhost, "p", "^(declared|plain)$", alternate_exchange="ae")
    assert vhost.generation > generation
    assert vhost.exchanges["plain"].alternate == "ae"
    assert vhost.exchanges["declared"].alternate == "own"
    vhost.obedience.remove(vhost.obedience.policies, "p")
    assert vhost.exchanges["plain"].alternate is None
    assert vhost.exchanges["declared"].alternate == "own"

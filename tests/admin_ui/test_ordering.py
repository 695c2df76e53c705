from __future__ import annotations

from random import Random
from typing import Any

import pytest

from admin_ui import ordering
from admin_ui.ordering import PART, by_name
from admin_ui.turns import Turns
from tests.admin_ui.world import World


@pytest.mark.parametrize("count", [0, 1, PART, PART + 1, 20 * PART + 7])
@pytest.mark.parametrize("kind", ["rising", "falling", "mixed", "alike"])
async def test_as_sorted_at_once_and_no_step_takes_many(count: int, kind: str) -> None:
    names = [f"{number % 7 if kind == 'alike' else number:07}-{number}" for number in range(count)]
    if kind == "falling":
        names.reverse()
    elif kind != "rising":
        Random(count).shuffle(names)
    made = list(ordering._steps(names))
    assert [name for some in made for name in some] == sorted(names)
    assert max(map(len, made)) <= 3 * PART
    found: dict[str, Any] = {name: name.upper() for name in names}
    assert await by_name(found, Turns()) == [name.upper() for name in sorted(names)]


@pytest.mark.parametrize("path", ["queues", "queues/shop", "exchanges", "bindings", "bindings/shop"])
async def test_lists_are_sorted_in_turns(
    shop: World, turns: list[int], monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(ordering, "PART", 32)
    vhost = shop.broker.vhosts["shop"]
    names = [f"q{number}" for number in range(640)]
    for name in names:
        vhost.declare_queue(name)
        vhost.declare_exchange(name, "fanout")
        vhost.bind_queue(name, name, "", {}, None)
    await shop.get(f"/{path}?page=1&page_size=1")
    turns.clear()
    page = await shop.get(f"/{path}?page=1&page_size=500")
    assert len(turns) - 500 // 16 >= 2 * 640 // 32
    key = "destination" if path.startswith("bindings") else "name"
    found = [each[key] for each in page["items"] if each[key] in names]
    assert found == sorted(names)[: len(found)]
    assert len(found) > 400


async def test_a_queue_that_goes_while_names_are_sorted(shop: World) -> None:
    vhost = shop.broker.vhosts["shop"]

    class Going(Turns):
        async def next(self) -> None:
            vhost.delete_queue("emails")

    assert [each.name for each in await by_name(vhost.queues, Going())] == ["orders.eu"]

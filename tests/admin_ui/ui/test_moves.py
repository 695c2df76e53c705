"""Messages moved from the page of their queue: by keyboard, on a phone, watched, stopped, not offered."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.admin_ui.ui.site import PHONE, WIDE, Site, Visit, queue_path
from tests.admin_ui.ui.test_acts import open_act, press_to

Visits = Callable[..., Visit]
RUNNING = {
    "id": 7,
    "vhost": "/",
    "queue": "here",
    "to": {"vhost": "/", "queue": "there"},
    "user": "guest",
    "state": "running",
    "reason": "",
    "count": 4000,
    "moved": 1000,
    "left": 3000,
    "rate": 500.0,
    "began": 1_795_000_000_000,
    "ended": None,
}


def fill(channel: Any, count: int) -> None:
    for name in ("here", "there"):
        channel.queue_declare(name, exclusive=False, auto_delete=True)
    for _ in range(count):
        channel.basic_publish("", "here", b"x")


def test_moved_by_keyboard(calm: Site, visit: Visits) -> None:
    with calm.connect() as connection:
        channel = connection.channel()
        fill(channel, 3)
        one = visit(calm, size=WIDE)
        keys = one.page.keyboard
        one.open(queue_path("here"))
        one.page.wait_for_selector(".figures div:has-text('Ready') dd:text-is('3')")
        open_act(one, "Move messages")
        assert one.axe() == []
        press_to(one, "Queue", within="dialog")
        keys.type("here")
        keys.press("Enter")
        one.page.wait_for_selector("#field-other-error:has-text('in this queue already')")
        keys.press("Control+a")
        keys.type("ther")
        keys.press("Enter")
        one.page.wait_for_selector("#field-other-error:has-text(\"did you mean 'there'?\")")
        one.expect_requests_to_fail("404")
        keys.type("e")
        press_to(one, "How many", within="dialog")
        keys.type("none")
        keys.press("Enter")
        one.page.wait_for_selector("#field-count-error:has-text('A whole number above 0')")
        keys.press("Control+a")
        keys.type("2")
        keys.press("Enter")
        one.page.wait_for_selector(".said:has-text('2 messages of here are being moved to there.')")
        one.page.wait_for_selector(".moves li:has-text('To queue there: 2 of 2 messages'):has-text('done')")
        one.page.wait_for_selector(".figures div:has-text('Ready') dd:text-is('1')")
        assert one.axe() == []
        one.open(queue_path("there"))
        one.page.wait_for_selector(".moves li:has-text('From queue here: 2 of 2 messages')")
        one.page.wait_for_selector(".figures div:has-text('Ready') dd:text-is('2')")
        one.close()  # the page of a queue that is gone would complain
        channel.queue_delete("here")
        channel.queue_delete("there")


def test_a_failed_one_says_why_on_a_phone(calm: Site, visit: Visits) -> None:
    with calm.connect() as connection:
        channel = connection.channel()
        fill(channel, 1)
        one = visit(calm, size=PHONE, scheme="dark")
        one.open(queue_path("here"))
        one.page.click("button:has-text('Move messages')")
        one.page.select_option("select[name=kind]", "exchange")
        one.page.fill("input[name=other]", "amq.topic")
        one.page.fill("input[name=routing_key]", "nobody")
        assert one.axe() == []
        assert not one.overflows()
        one.page.click("dialog button[type=submit]")
        one.page.wait_for_selector(
            ".moves li:has-text(\"no queue takes messages of exchange 'amq.topic' with the routing key\")"
        )
        assert one.axe() == []
        assert not one.overflows()
        one.close()  # the page of a queue that is gone would complain
        channel.queue_delete("here")
        channel.queue_delete("there")


@pytest.mark.parametrize(("size", "scheme"), [(WIDE, "light"), (PHONE, "dark")])
def test_one_that_runs_is_watched_and_stopped(calm: Site, visit: Visits, size: Any, scheme: str) -> None:
    with calm.connect() as connection:
        channel = connection.channel()
        fill(channel, 1)
        one = visit(calm, size=size, scheme=scheme)
        state: dict[str, Any] = dict(RUNNING)
        stopped: list[str] = []

        def answer(route: Any) -> None:
            route.fulfill(content_type="application/json", body=json.dumps([state]))

        def stop(route: Any) -> None:
            stopped.append(route.request.method)
            state.update(state="stopped", ended=RUNNING["began"])
            route.fulfill(status=204)

        one.page.route("**/admin/v1/queues/*/here/moves", answer)
        one.page.route("**/admin/v1/moves/7", stop)
        one.open(queue_path("here"))
        one.page.wait_for_selector(".moves li:has-text('1,000 of 4,000 messages, 500/s, 6 s left')")
        state.update(moved=3000, left=1000)
        one.page.wait_for_selector(".moves li:has-text('3,000 of 4,000 messages')")
        assert one.page.get_attribute(".moves progress", "value") == "3000"
        assert one.axe() == []
        assert not one.overflows()
        one.page.click("button[aria-label='Stop moving messages from here']")
        one.page.wait_for_selector(".moves li:has-text('stopped')")
        assert stopped == ["DELETE"]
        assert one.page.locator(".moves button, .moves progress").count() == 0
        one.close()  # the page of a queue that is gone would complain
        channel.queue_delete("here")
        channel.queue_delete("there")


def test_what_waits_is_moved_from_the_overview(calm: Site, visit: Visits) -> None:
    with calm.connect() as connection:
        channel = connection.channel()
        fill(channel, 1)
        one = visit(calm)
        one.page.wait_for_selector(".attention p:has-text('here has 1 ready message and nobody')")
        one.page.click(".attention button[aria-label='Move: here']")
        one.page.fill("input[name=other]", "there")
        one.page.click("dialog button[type=submit]")
        one.page.wait_for_selector(".said:has-text('1 message of here is being moved to there.')")
        one.page.wait_for_selector(".attention p:has-text('there has 1 ready message and nobody')")
        channel.queue_delete("here")
        channel.queue_delete("there")

"""Regular expressions of callers: ordinary ones match, exponential ones end, a late timer harms nobody."""

from __future__ import annotations

import re
import signal
import threading

import pytest

from admin_ui import patterns
from tests.admin_ui.world import World

EVIL = re.compile(r"(a+)+$")
LONG = "a" * 60 + "b"


def test_ordinary_expression() -> None:
    assert patterns.search(re.compile("^o.*s$"), ["orders", "mails", "os"]) == [True, False, True]
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)


def test_exponential_expression_is_ended() -> None:
    with pytest.raises(patterns.TooSlow):
        patterns.search(EVIL, [LONG])  # years otherwise
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)
    assert patterns.search(EVIL, ["a"]) == [True]


def test_late_timer_hits_nobody() -> None:
    patterns.search(re.compile("a"), ["a"])
    signal.raise_signal(signal.SIGVTALRM)
    timer = patterns.Timer()
    timer.armed = True
    with pytest.raises(patterns.TooSlow):
        timer(signal.SIGVTALRM, None)


def test_other_threads_go_without() -> None:
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.extend(patterns.search(re.compile("a"), ["ba", "b"])))
    thread.start()
    thread.join()
    assert found == [True, False]


async def test_list_with_an_exponential_filter(node: World) -> None:
    node.broker.vhosts["/"].declare_queue(LONG)
    reply = await node.call("GET", "/api/queues?page=1&use_regex=true&name=(a%2B)%2B%24")
    assert reply.status == 400
    assert reply.json == {"error": "bad_request", "reason": "The regular expression takes too long to match"}
    assert len((await node.get("/queues?page=1&use_regex=true&name=b%24"))["items"]) == 1

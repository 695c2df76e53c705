"""Permissions on exchanges and queues."""

from __future__ import annotations

from typing import Any

import pytest

from amqp_router.auth import permissions as module
from amqp_router.auth.permissions import Permissions, compile_permission
from amqp_router.protocol.errors import AccessRefused
from persistence.definitions import PermissionRow


class Source:
    """A row that can be changed."""

    def __init__(self, configure: str = "", write: str = "", read: str = "") -> None:
        self.row: PermissionRow | None = PermissionRow("u", "/", configure, write, read)
        self.generation = 0
        self.asked = 0

    def find(self) -> PermissionRow | None:
        self.asked += 1
        return self.row

    def permissions(self) -> Permissions:
        return Permissions("u", "/", find=self.find, generation=lambda: self.generation)


def allows(permissions: Permissions, *arguments: Any) -> bool:
    try:
        permissions.check(*arguments)
    except AccessRefused:
        return False
    return True


def test_text_of_a_refusal() -> None:
    permissions = Source().permissions()
    with pytest.raises(AccessRefused) as caught:
        permissions.check("read", "queue", "q")
    assert caught.value.reply_text == "ACCESS_REFUSED - access to queue 'q' in vhost '/' refused for user 'u'"
    with pytest.raises(AccessRefused) as caught:
        permissions.check("configure", "exchange", "e")
    assert (
        caught.value.reply_text == "ACCESS_REFUSED - access to exchange 'e' in vhost '/' refused for user 'u'"
    )


def test_the_default_exchange_is_called_amq_default() -> None:
    assert allows(Source(write="^amq\\.default$").permissions(), "write", "exchange", "")
    with pytest.raises(AccessRefused, match=r"access to exchange 'amq\.default' in vhost"):
        Source(write="^x$").permissions().check("write", "exchange", "")


def test_each_action_has_its_pattern() -> None:
    permissions = Source("^c", "^w", "^r").permissions()
    for action in ("configure", "write", "read"):
        for name in ("c1", "w1", "r1"):
            assert allows(permissions, action, "queue", name) == (name[0] == action[0])


def test_patterns_are_searched_and_empty_ones_match_nothing() -> None:
    assert allows(Source(read="orders").permissions(), "read", "queue", "eu.orders.1")
    assert not allows(Source(read="^orders$").permissions(), "read", "queue", "eu.orders.1")
    assert not allows(Source(read="").permissions(), "read", "queue", "x")
    assert allows(Source(read="").permissions(), "read", "queue", "")


def test_a_change_counts_at_once() -> None:
    source = Source(read="^a")
    permissions = source.permissions()
    assert allows(permissions, "read", "queue", "a")
    source.row = PermissionRow("u", "/", "", "", "^b")
    source.generation += 1
    assert not allows(permissions, "read", "queue", "a")
    assert allows(permissions, "read", "queue", "b")
    source.row = None
    source.generation += 1
    assert not allows(permissions, "read", "queue", "b")


def test_grants_are_remembered_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source(write=".*")
    permissions = source.permissions()
    matched: list[str] = []

    def matches(_pattern: str, name: str) -> bool:
        matched.append(name)
        return True

    monkeypatch.setattr(module, "_matches", matches)
    for _ in range(2):
        permissions.check("write", "queue", "q")
    assert matched == ["q"]
    for i in range(2 * module.GRANTED_MAX):
        permissions.check("write", "queue", f"q{i}")
    assert len(permissions._granted) <= module.GRANTED_MAX
    assert source.asked == 1


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("^[[:alpha:]]+$", "abc", "ab1"),
        ("^[[:digit:][:punct:]]+$", "1-2", "1a"),
        ("^(?!amq\\.).*", "q", "amq.q"),
        ("\\Aq\\z", "q", "q\n"),
        ("^q\\Z", "q\n", "qq"),
        (r"^\\z$", r"\z", "z"),
        ("^a++b$", "aab", "b"),
        ("^(a|b)\\.\\d$", "a.1", "c.1"),
        ("(?i)^ABC$", "abc", "abd"),
        ("^\\w+$", "abc", "ü"),  # bytes, as in RabbitMQ
        ("^ü$", "ü", "u"),
        ("^\udcff$", "\udcff", "\udcfe"),
    ],
)
def test_patterns_of_perl(pattern: str, yes: str, no: str) -> None:
    permissions = Source(read=pattern).permissions()
    assert allows(permissions, "read", "queue", yes)
    assert not allows(permissions, "read", "queue", no)


@pytest.mark.parametrize("pattern", ["[", "(", "*", "(?P<x", "\\"])
def test_a_pattern_that_is_none(pattern: str) -> None:
    with pytest.raises(ValueError, match="is not a regular expression"):
        compile_permission(pattern)


def test_a_pattern_that_takes_years_grants_nothing() -> None:
    source = Source(read=r"(?=(a|a)+$)(a+)+\1\z")
    assert not allows(source.permissions(), "read", "queue", "a" * 60 + "b")


def test_a_stored_pattern_that_is_none_grants_nothing() -> None:
    assert not allows(Source(read="(").permissions(), "read", "queue", "(")

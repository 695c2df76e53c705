"""For whom a handler acts, as events say it (``amq.rabbitmq.event``)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Generator
from typing import TypeVar

from vhosts.feed import INTERNAL, Feed

T = TypeVar("T")
R = TypeVar("R")


def acting(feed: Feed, user: str, handler: Callable[[T], R], call: T) -> R | Awaitable[R]:
    """What ``handler`` returns for ``call``; what it changes, also later, is done for ``user``."""
    if not feed.on:
        return handler(call)
    feed.actor = user
    try:
        result = handler(call)
    finally:
        feed.actor = INTERNAL
    return _Steps(feed, user, result) if inspect.isawaitable(result) else result


class _Steps(Awaitable[R]):
    """Something to await, each of whose steps is done for ``user``: others come between them."""

    def __init__(self, feed: Feed, user: str, awaited: Awaitable[R]) -> None:
        self._feed = feed
        self._user = user
        self._awaited = awaited

    def __await__(self) -> Generator[object, None, R]:
        steps = self._awaited.__await__()
        error: BaseException | None = None
        while True:
            self._feed.actor = self._user
            try:
                waits_for = next(steps) if error is None else _throw(steps, error)
            except StopIteration as end:
                result: R = end.value
                return result
            finally:
                self._feed.actor = INTERNAL
            error = None
            try:
                yield waits_for
            except BaseException as thrown:  # a cancellation, too, belongs to what is awaited
                error = thrown


def _throw(steps: object, error: BaseException) -> object:
    """Throw ``error`` into ``steps``; an iterator that takes none is left with it."""
    if isinstance(steps, Generator):
        return steps.throw(error)
    raise error

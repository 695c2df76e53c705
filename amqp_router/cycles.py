"""Reference cycles of asyncio's that a closed connection would leave to the garbage collector.

A full collection comes seldom while the broker is busy (``amqp_router.process.Collector``), and a broker
whose clients come and go all day may never be idle.
"""

from __future__ import annotations

import asyncio


def break_cycle(transport: asyncio.BaseTransport) -> None:
    """Let ``transport``, whose connection is lost, be freed with its last reference."""
    if hasattr(transport, "_read_ready_cb"):  # a method of its own
        setattr(transport, "_read_ready_cb", None)  # noqa: B010  no public name


def forget_frames(error: BaseException) -> None:
    """Let go of the functions that ``error`` and what led to it came through.

    asyncio sets a lost connection as the exception of a future, and the function that waited for it holds the
    future: the request, its answer and all objects of a list would stay with them.
    """
    each: BaseException | None = error
    while each is not None:
        each.__traceback__ = None
        each = each.__cause__ or each.__context__

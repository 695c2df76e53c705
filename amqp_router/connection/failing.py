"""An error that ends a connection: what it is, what the log is told, and the channel that goes first.

In RabbitMQ a channel is a process. One that fails leaves its queues at once. They return what it had, and
deliver that, also to other channels of the connection. Only then does the connection hear of the error, and
ends the other channels. What they have got so stands before connection.close, and returns in its turn.

An error of the connection itself, such as a wrong frame, ends all its channels at the same time.

Source: RabbitMQ 3.10.8, ``rabbit_channel:handle_exception`` and ``rabbit_reader``; observed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from amqp_router.channel.channel import Channel
from amqp_router.channel.due import Due
from amqp_router.channel.states import ChannelState
from amqp_router.connection.dispatch import Dispatch
from amqp_router.connection.slices import Slices
from amqp_router.protocol.errors import (
    ConnectionException,
    ConnectionForced,
    FrameError,
    LoginRefused,
    UnexpectedFrame,
    frame_too_large,
    invalid_frame_end,
    malformed_frame,
)
from amqp_router.protocol.input import TOO_LARGE, Input

#: The errors of a connection, not of a channel: RabbitMQ finds them before a channel gets the frame.
_OF_FRAMES = (FrameError, UnexpectedFrame)


def failed_channel(dispatch: Dispatch, error: ConnectionException) -> Channel | None:
    """The channel whose frame, the present one, caused ``error``; None if it is the connection's own."""
    channel = dispatch.channels.get(dispatch.frames.number)
    if channel is None or channel.state is not ChannelState.OPEN or isinstance(error, _OF_FRAMES):
        return None
    return channel


def leave_first(dispatch: Dispatch, channel: Channel, end: Callable[[], bool]) -> None:
    """Give back what ``channel`` holds, let its queues deliver that, and call ``end``."""
    due = Due((), owners=[*channel.consumers.values(), *channel.getters.values()])
    dispatch.leave_channel(channel)
    channel.state = ChannelState.CLOSING
    dispatch.work.add(partial(_deliver, dispatch.work, due))
    dispatch.work.add(end)


def _deliver(work: Slices, due: Due) -> bool:
    is_done = due.go_on()
    work.units += due.spent
    return is_done


def wrong_frame(frames: Input, found: int, frame_max: int) -> FrameError:
    """The error of a frame that ``frames`` has found to be too large or without end octet; drops it all."""
    kind, payload = frames.kind, b""
    if found == TOO_LARGE:
        # 8 octets more than agreed: some clients do not count the envelope.
        reason = frame_too_large(frames.size, frame_max - 8)
    else:
        payload = frames.payload()
        reason = invalid_frame_end(frames.data[frames.end])
    frames.drop()
    return malformed_frame(kind, payload, reason)


def tell(event: Callable[..., None], peer: str, error: ConnectionException) -> None:
    """Write a line about ``error`` to the log."""
    # For a forced close and a refused login the caller logs a line of its own.
    is_told = isinstance(error, (ConnectionForced, LoginRefused))
    event(
        logging.DEBUG if is_told else logging.WARNING,
        "connection error",
        peer=peer,
        code=error.reply_code,
        reason=error.reply_text,
    )

"""States of a channel number on a connection.

There is no CLOSED member: a number without a channel object is closed. After the server has sent
channel.close it drops everything on that number until the client's close-ok.
"""

from __future__ import annotations

from enum import Enum


class ChannelState(Enum):
    OPEN = "open"
    #: channel.close sent, its close-ok awaited.
    CLOSING = "closing"

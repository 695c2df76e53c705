"""A node without sockets, threads, disks and clocks, and clients joined to it by lists of bytes.

Nothing in it runs by itself: each thing happens when the test says so.
"""

from tests.nodes.client import Client
from tests.nodes.definitions import SimDefinitions
from tests.nodes.node import SimNode
from tests.nodes.users import SimUser
from tests.nodes.wire import (
    PERSISTENT,
    TRANSIENT,
    Received,
    before_body,
    content_frames,
    content_header,
    decode,
    publish_frames,
    raw_frame,
    split_frames,
)

__all__ = [
    "PERSISTENT",
    "TRANSIENT",
    "Client",
    "Received",
    "SimDefinitions",
    "SimNode",
    "SimUser",
    "before_body",
    "content_frames",
    "content_header",
    "decode",
    "publish_frames",
    "raw_frame",
    "split_frames",
]

"""How messages are held in memory."""

from __future__ import annotations

import gc
import re

import pytest

from amqp_router.protocol import message
from amqp_router.protocol.message import Message, build_message
from tests.trees import ROOT


# From source a message is a plain object, which the collector knows.
@pytest.mark.skipif(not message.__file__.endswith(".so"), reason="from source")
def test_the_garbage_collector_does_not_go_through_messages() -> None:
    assert not gc.is_tracked(build_message(b"\x00\x01q", b"\x00\x00", b"body"))
    assert not any(isinstance(found, Message) for found in gc.get_objects())


def test_no_pxd_has_a_decorator_that_cython_takes_from_the_class_alone() -> None:
    """Cython says nothing and ignores it."""
    for path in ROOT.glob("*/**/*.pxd"):
        if ".venv" not in path.parts:
            ignored = re.findall(r"@cython\.(no_gc\w*|freelist\S*)", path.read_text())
            assert not ignored, f"{path}: {ignored}"

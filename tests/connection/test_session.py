"""What a client says of itself and agrees to."""

from __future__ import annotations

from amqp_router.connection.session import CHANNEL_MAX, FRAME_MAX, Session


def test_limits_until_others_are_agreed() -> None:
    session = Session("::1", frame_max=0, channel_max=0)
    assert (session.frame_max, session.channel_max, session.heartbeat_s) == (FRAME_MAX, CHANNEL_MAX, 0)
    session.agree(frame_max=4096, channel_max=7, heartbeat_s=60)
    assert (session.frame_max, session.channel_max, session.heartbeat_s) == (4096, 7, 60)
    session.agree(frame_max=0, channel_max=0, heartbeat_s=0)
    assert (session.frame_max, session.channel_max, session.heartbeat_s) == (FRAME_MAX, CHANNEL_MAX, 0)


def test_capabilities_are_those_that_are_true() -> None:
    session = Session("::1", frame_max=4096, channel_max=7)
    table = {"basic.nack": ("t", True), "connection.blocked": ("t", False), "odd": ("S", b"yes")}
    session.introduce("PLAIN", {"capabilities": ("F", table)})
    assert (session.mechanism, session.capabilities) == ("PLAIN", {"basic.nack"})
    session.introduce("PLAIN", {"capabilities": ("S", b"all")})
    assert session.capabilities == frozenset()

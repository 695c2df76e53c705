"""What the handshake has found out about the client, and agreed with it.

Source: AMQP 0-9-1, connection.start-ok and tune-ok; RabbitMQ, "Connections", for the capabilities.
"""

from __future__ import annotations

from typing import Any

from amqp_router.protocol.kept_table import Arguments

#: The largest frame and channel number of a connection without limits.
FRAME_MAX = 1 << 31
CHANNEL_MAX = 65535
#: The mechanism of a login with the certificate of a TLS connection (RFC 4422, appendix A).
EXTERNAL = "EXTERNAL"


class Session:
    """The client at ``host``. Until others are agreed, the limits are those given; 0 is none."""

    __slots__ = (
        "capabilities",
        "certificate_user",
        "channel_max",
        "client_properties",
        "frame_max",
        "heartbeat_s",
        "host",
        "host_address",
        "is_0_8",
        "is_encrypted",
        "is_relayed",
        "mechanism",
        "peer_address",
        "takes_external",
    )

    def __init__(self, host: str, *, frame_max: int, channel_max: int) -> None:
        self.host = host
        #: Addresses of the client's end of the socket, and of ours; whether it speaks TLS.
        self.peer_address: tuple[str, int] = ("?", 0)
        self.host_address: tuple[str, int] = ("?", 0)
        self.is_encrypted = False
        #: Whether the client speaks AMQP 0-8 (``protocol.amqp_0_8``).
        self.is_0_8 = False
        #: Whether a proxy passes the connection on, which then is never one of this machine.
        self.is_relayed = False
        #: Whether the client may log in with its certificate, and the user that this names; empty if none.
        self.takes_external = False
        self.certificate_user = ""
        #: How the client authenticated.
        self.mechanism = ""
        self.client_properties: Arguments = {}
        self.capabilities: frozenset[str] = frozenset()
        self.frame_max = frame_max or FRAME_MAX
        #: How many channels may be open at a time.
        self.channel_max = channel_max or CHANNEL_MAX
        #: 0 is no heartbeat.
        self.heartbeat_s = 0

    def offered(self, mechanisms: str) -> str:
        """``mechanisms``, and EXTERNAL where a certificate can be shown.

        As in RabbitMQ, it is offered without a certificate too: then its refusal says what is wrong.
        """
        return f"{mechanisms} {EXTERNAL}" if self.takes_external else mechanisms

    def introduce(self, mechanism: str, client_properties: Arguments) -> None:
        """The client has said how it authenticates, and who it is."""
        self.mechanism = mechanism
        self.client_properties = client_properties
        field = client_properties.get("capabilities")
        table: dict[str, Any] = field[1] if field is not None and field[0] == "F" else {}
        self.capabilities = frozenset(name for name, value in table.items() if value == ("t", True))
        if self.is_0_8:  # which has no such methods
            self.capabilities -= {"connection.blocked"}

    def agree(self, *, frame_max: int, channel_max: int, heartbeat_s: int) -> None:
        """The client has chosen among what was offered; 0 is no limit, and no heartbeat."""
        self.frame_max = frame_max or FRAME_MAX
        self.channel_max = channel_max or CHANNEL_MAX
        self.heartbeat_s = heartbeat_s

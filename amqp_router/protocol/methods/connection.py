"""The methods of class connection (10).

Source: AMQP 0-9-1, class connection; RabbitMQ, "Protocol Extensions" (connection.blocked, update-secret).
"""

from __future__ import annotations

from dataclasses import field

from amqp_router.protocol.kept_table import Arguments
from amqp_router.protocol.methods.method import Method, method


@method(10, 10, "connection.start", "octet octet table longstr longstr")
class ConnectionStart(Method):
    version_major: int = 0
    version_minor: int = 9
    server_properties: Arguments = field(default_factory=dict)
    mechanisms: bytes = b"PLAIN"
    locales: bytes = b"en_US"


@method(10, 11, "connection.start-ok", "table shortstr longstr shortstr")
class ConnectionStartOk(Method):
    client_properties: Arguments = field(default_factory=dict)
    mechanism: str = "PLAIN"
    response: bytes = field(default=b"", repr=False)
    locale: str = "en_US"


@method(10, 20, "connection.secure", "longstr")
class ConnectionSecure(Method):
    challenge: bytes = b""


@method(10, 21, "connection.secure-ok", "longstr")
class ConnectionSecureOk(Method):
    response: bytes = field(default=b"", repr=False)


@method(10, 30, "connection.tune", "short long short")
class ConnectionTune(Method):
    channel_max: int = 0
    frame_max: int = 0
    heartbeat: int = 0


@method(10, 31, "connection.tune-ok", "short long short")
class ConnectionTuneOk(Method):
    channel_max: int = 0
    frame_max: int = 0
    heartbeat: int = 0


@method(10, 40, "connection.open", "shortstr (shortstr) (bit)")
class ConnectionOpen(Method):
    virtual_host: str = "/"


@method(10, 41, "connection.open-ok", "(shortstr)")
class ConnectionOpenOk(Method):
    pass


@method(10, 50, "connection.close", "short shortstr short short")
class ConnectionClose(Method):
    reply_code: int = 200
    reply_text: str = ""
    class_id: int = 0
    method_id: int = 0


@method(10, 51, "connection.close-ok")
class ConnectionCloseOk(Method):
    pass


@method(10, 60, "connection.blocked", "shortstr")
class ConnectionBlocked(Method):
    """RabbitMQ's extension: the server stops reading this connection."""

    reason: str = ""


@method(10, 61, "connection.unblocked")
class ConnectionUnblocked(Method):
    pass


@method(10, 70, "connection.update-secret", "longstr shortstr")
class ConnectionUpdateSecret(Method):
    """RabbitMQ's extension: fresh credentials for a long-lived connection."""

    new_secret: bytes = field(default=b"", repr=False)
    reason: str = ""


@method(10, 71, "connection.update-secret-ok")
class ConnectionUpdateSecretOk(Method):
    pass

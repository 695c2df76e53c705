"""Connections and channels."""

from __future__ import annotations

from typing import Any

from admin_ui.documents.arguments import arguments
from admin_ui.documents.stats import NO_PROCESS, Stats, happened, idle_since, with_deliver_get
from admin_ui.documents.tables import value
from amqp_router.connection.states import ConnectionState
from amqp_router.connection.transport import Transport
from amqp_router.metrics import CHANNEL, CONNECTION
from amqp_router.sockets import TlsFacts

#: The names of ciphers in RabbitMQ (Erlang) by those of OpenSSL.
_CIPHERS = {
    "AES128-GCM": "aes_128_gcm",
    "AES256-GCM": "aes_256_gcm",
    "AES128-CCM": "aes_128_ccm",
    "AES256-CCM": "aes_256_ccm",
    "AES128": "aes_128_cbc",
    "AES256": "aes_256_cbc",
    "CHACHA20-POLY1305": "chacha20_poly1305",
}
_PROTOCOLS = {"TLSv1.2": "tlsv1.2", "TLSv1.3": "tlsv1.3"}
#: The fields about TLS of a connection in a list that has none.
NO_TLS = dict.fromkeys(
    (
        "peer_cert_issuer",
        "peer_cert_subject",
        "peer_cert_validity",
        "ssl_cipher",
        "ssl_hash",
        "ssl_key_exchange",
        "ssl_protocol",
    )
)
#: The types of values that are texts in JSON: long strings, octets, and void.
TEXTS = ("S", "x", "V")
#: What a cipher that authenticates by itself has in the place of a hash.
_AEAD = "aead"


def tls_fields(tls: TlsFacts | None) -> dict[str, Any]:
    """The fields about TLS, in RabbitMQ's words; without TLS they are empty."""
    if tls is None:
        names = ("ssl_cipher", "ssl_hash", "ssl_key_exchange", "ssl_protocol")
        certificate: dict[str, Any] = dict.fromkeys(("subject", "issuer", "validity"), "")
        found: dict[str, Any] = {"ssl": False, **dict.fromkeys(names, "")}
    else:
        certificate = {"subject": tls.subject, "issuer": tls.issuer, "validity": tls.validity}
        key_exchange, cipher, mac = _suite(tls.cipher)
        found = {
            "ssl": True,
            "ssl_protocol": _PROTOCOLS.get(tls.protocol, tls.protocol.lower()),
            "ssl_key_exchange": key_exchange,
            "ssl_cipher": cipher,
            "ssl_hash": mac,
        }
    return {**found, **{f"peer_cert_{name}": value for name, value in certificate.items()}}


def _suite(name: str) -> tuple[str, str, str]:
    """Key exchange, cipher and hash of a cipher suite, which OpenSSL gives one name."""
    if name.startswith("TLS_"):  # of TLS 1.3, where the key exchange is agreed apart
        return "any", name.removeprefix("TLS_").rpartition("_")[0].lower(), _AEAD
    exchange, _, rest = name.partition("-")
    key, _, rest = rest.partition("-")
    key_exchange = f"{exchange}_{key}".lower()
    if not rest or exchange not in ("ECDHE", "DHE"):
        key_exchange, rest = "rsa", name
    known = next((each for each in _CIPHERS if rest.startswith(each)), "")
    last = rest.removeprefix(known).strip("-")
    is_aead = any(mode in known for mode in ("GCM", "CCM", "POLY1305"))
    mac = _AEAD if is_aead else last.lower()
    return key_exchange, _CIPHERS.get(known, rest.lower()), mac


def details(machine: Any) -> dict[str, Any]:
    """The reference to a connection in other documents; its socket may be closed by now."""
    host, port = machine.output.owner.peer_address
    return {"name": machine_name(machine), "peer_host": host, "peer_port": port}


def name(transport: Any) -> str:
    """``peer -> server``, the name of a connection in RabbitMQ."""
    return f"{transport.machine.peer} -> {_address(transport.host_address)}"


def machine_name(machine: Any) -> str:
    """The same of a connection whose socket may be closed by now."""
    owner = machine.output.owner
    return f"{_address(owner.peer_address)} -> {_address(owner.host_address)}"


def client_says(transport: Any, what: str) -> str:
    """A string of the client's properties, for example ``connection_name``; empty if there is none."""
    return machine_says(transport.machine, what)


def machine_says(machine: Any, what: str) -> str:
    """The same of a connection whose socket may be closed by now."""
    tag, value = machine.session.client_properties.get(what, ("V", None))
    return value.decode(errors="replace") if tag == "S" else ""


def channel_name(channel: Any) -> str:
    """The connection's name and the channel's number."""
    return f"{machine_name(channel.connection)} ({channel.number})"


def _address(address: tuple[str, int]) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def state_of(machine: Any) -> str:
    """What a connection is doing, in RabbitMQ's words."""
    if machine.state is not ConnectionState.RUNNING:
        return "closing"
    if machine.blocked:
        return "blocked"  # it published during an alarm of the node
    # The connection is not read until its messages are on disk. RabbitMQ calls this flow control.
    return "flow" if machine.inflow.over else "running"


def document(transport: Any, node: str, stats: Stats) -> dict[str, Any]:
    """A connection."""
    machine = transport.machine
    (host, port), (peer_host, peer_port) = transport.host_address, transport.peer_address
    found: dict[str, Any] = {
        **tls_fields(transport.tls),
        **NO_PROCESS,
        "auth_mechanism": machine.session.mechanism,
        "channel_max": machine.session.channel_max,
        "channels": len(machine.channels),
        "client_properties": arguments(machine.session.client_properties),
        "connected_at": transport.connected_at_ms,
        "frame_max": machine.session.frame_max,
        "host": host,
        "name": name(transport),
        "node": node,
        "peer_host": peer_host,
        "peer_port": peer_port,
        "port": port,
        "protocol": "AMQP 8-0" if machine.session.is_0_8 else "AMQP 0-9-1",
        "recv_cnt": transport.recv_cnt,
        "reductions_details": stats.zero("data_rates"),
        "send_cnt": transport.writer.send_cnt,
        "send_pend": machine.output.waiting_bytes(),
        "state": state_of(machine),
        "timeout": machine.session.heartbeat_s,
        "type": "network",
        "user": machine.user.name,
        "user_who_performed_action": machine.user.name,
        "vhost": machine.vhost.name,
    }
    given = machine.session.client_properties.get("connection_name")
    if given is not None and given[0] in TEXTS:
        found["user_provided_name"] = value(given)
    octets = {"recv_oct": transport.recv_oct, "send_oct": transport.send_oct}
    return stats.put(found, octets, stats.metrics.history(transport), CONNECTION, "data_rates")


def listed(transport: Any, node: str, stats: Stats) -> dict[str, Any]:
    """A connection in a list, where RabbitMQ shows what it does not have as null."""
    found = document(transport, node, stats)
    if transport.tls is None:
        found.update(NO_TLS)
    return found


def brief(transport: Any, node: str) -> dict[str, Any]:
    """A connection in the list of one user's connections."""
    machine = transport.machine
    return {"name": name(transport), "vhost": machine.vhost.name, "user": machine.user.name, "node": node}


def channel_document(channel: Any, node: str, stats: Stats) -> dict[str, Any]:
    """A channel."""
    publishing, delivery = channel.publishing, channel.delivery
    connection = channel.connection
    owner = connection.output.owner
    history = stats.metrics.history(channel)
    shared, transaction = channel.shared, channel.transaction
    found: dict[str, Any] = {
        "acks_uncommitted": len(transaction.settles) if transaction is not None else 0,
        **NO_PROCESS,
        "confirm": channel.confirms is not None,
        "connection_details": details(connection),
        "consumer_count": len(channel.consumers),
        "global_prefetch_count": shared.limit,
        "messages_uncommitted": len(transaction.publishes) if transaction is not None else 0,
        "messages_unacknowledged": delivery.outstanding,
        "messages_unconfirmed": unconfirmed(channel),
        "name": channel_name(channel),
        "node": node,
        "number": channel.number,
        "pending_raft_commands": 0,
        "prefetch_count": channel.prefetch,
        "reductions_details": stats.zero("msg_rates"),
        "state": state_of(owner.machine) if isinstance(owner, Transport) else "closed",
        "transactional": transaction is not None,
        "user": connection.user.name,
        "user_who_performed_action": connection.user.name,
        "vhost": channel.vhost.name,
    }
    message_stats = happened(
        with_deliver_get(
            {
                "publish": publishing.publish_total,
                "confirm": channel.confirms.confirm_total if channel.confirms is not None else 0,
                "return_unroutable": publishing.return_total,
                "drop_unroutable": publishing.drop_total,
                "deliver": delivery.deliver_total,
                "deliver_no_ack": delivery.deliver_no_ack_total,
                "get": delivery.get_total,
                "get_no_ack": delivery.get_no_ack_total,
                "get_empty": delivery.get_empty_total,
                "redeliver": delivery.redeliver_total,
                "ack": delivery.ack_total,
            }
        )
    )
    if message_stats:
        found["message_stats"] = stats.put({}, message_stats, history, CHANNEL, "msg_rates")
    since = idle_since(history)
    if since is not None:
        found["idle_since"] = since
    return found


def unconfirmed(channel: Any) -> int:
    """Messages published on a channel in confirm mode that are not confirmed yet."""
    confirms = channel.confirms
    if confirms is None:
        return 0
    ahead = sum([last - first + 1 for first, last in confirms.ahead])
    return int(channel.publishing.next_sequence - confirms.low - ahead)

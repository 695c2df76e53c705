"""Health checks for monitors and load balancers."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

from admin_ui.asking import Answer
from admin_ui.documents import node
from admin_ui.endpoints import Call, Endpoint
from admin_ui.replies import ApiError, bad_request, not_authorised, not_found
from amqp_router.protocol.errors import AccessRefused, AMQPError, NotAllowed
from amqp_router.protocol.message import build_message
from amqp_router.sockets.certificates import DAY_S
from vhosts.publishing.outcome import Outcome
from vhosts.publishing.publisher import Publisher
from vhosts.queues.handle import QueueHandle
from vhosts.queues.state import FAILED

QUEUE = "aliveness-test"
#: The encoded properties of a message without any.
NO_PROPERTIES = b"\x00\x00"
#: Names of protocols, and the listener of each.
PROTOCOLS = {
    "amqp": "amqp",
    "amqp091": "amqp",
    "amqp0-9-1": "amqp",
    "amqps": "amqp/ssl",
    "amqp/ssl": "amqp/ssl",
    "http": "http",
    "https": "https",
}
#: Days of the units of time in which the end of certificates is asked for.
UNIT_DAYS = {"days": 1, "weeks": 7, "months": 30, "years": 365}


def ok(call: Call) -> dict[str, Any]:
    """A check that always passes, because this broker does not have the feature."""
    return {"status": "ok"}


def alone(call: Call) -> dict[str, Any]:
    """A check of replicas, which always passes on a single node."""
    return {"status": "ok", "reason": "single node cluster"}


def failed(reason: str, **more: Any) -> ApiError:
    """A check that did not pass."""
    error = ApiError(503)
    error.body = {"status": "failed", "reason": reason, **more}
    return error


def alarms(call: Call) -> dict[str, Any]:
    """Whether an alarm of the node blocks publishers."""
    return _no_alarm(call, "in the cluster")


def local_alarms(call: Call) -> dict[str, Any]:
    """Whether an alarm blocks publishers on this node, which is the whole cluster."""
    return _no_alarm(call, "on the node")


#: RabbitMQ's words for what an alarm is about, where ours are others.
_RESOURCES = {"disk": "disk space"}


def _no_alarm(call: Call, place: str) -> dict[str, Any]:
    names = call.state.broker.alarms.names
    if names:
        entries = [{"node": call.state.node, "resource": _RESOURCES.get(name, name)} for name in names]
        raise failed(f"There are alarms in effect {place}", alarms=entries)
    return ok(call)


def node_of_name(call: Call) -> dict[str, Any]:
    """The old form of the check, for a node by name."""
    if call.part("node") != call.state.node:
        raise not_found()
    return ok(call)


def virtual_hosts(call: Call) -> dict[str, Any]:
    """Whether every virtual host works. Failed queues are named."""
    everything: list[Any] = [
        queue for vhost in call.state.broker.vhosts.values() for queue in vhost.queues.values()
    ]
    broken = [
        {"vhost": queue.vhost.name, "queue": queue.name, "reason": queue.reason}
        for queue in everything
        if queue.state == FAILED
    ]
    if broken:
        raise failed("Some queues cannot be used", queues=broken[:10])
    return ok(call)


def definitions(call: Call) -> dict[str, Any]:
    """Whether definitions can be stored."""
    reason = call.state.broker.commits.failed
    if reason is not None:
        raise failed(str(reason))
    return ok(call)


def port_listener(call: Call) -> dict[str, Any]:
    """Whether something listens on a port."""
    try:
        port = int(call.part("port"))
    except ValueError:
        raise bad_request("Invalid port") from None
    ports = [listener["port"] for listener in node.listeners(call.state)]
    if port not in ports:
        raise failed("No active listener", missing=port, ports=ports)
    return {"status": "ok", "port": port}


def protocol_listener(call: Call) -> dict[str, Any]:
    """Whether a protocol is spoken."""
    protocol = call.part("protocol")
    protocols = [listener["protocol"] for listener in node.listeners(call.state)]
    spoken = PROTOCOLS.get(protocol.lower())
    if spoken not in protocols:
        raise failed("No active listener", missing=protocol, protocols=protocols)
    return {"status": "ok", "protocol": spoken if spoken == "amqp/ssl" else protocol}


def below_connection_limit(call: Call) -> dict[str, Any]:
    """Whether another client could connect."""
    connections, limit = len(call.state.broker.registry), call.state.options.connections_max
    if connections >= limit:
        raise failed("node connection limit is reached", connections=connections, limit=limit)
    return {"status": "ok", "connections": connections, "limit": limit}


def certificate_expiration(call: Call) -> dict[str, Any]:
    """Whether no certificate of a listener ends within a time. The shape is RabbitMQ's."""
    if not call.part("within").isdigit():
        raise bad_request("not_int")
    days = UNIT_DAYS.get(call.part("unit"))
    if days is None:
        raise bad_request("Time unit not recognised. Supported units: days, weeks, months, years.")
    latest = time.time() + int(call.part("within")) * days * DAY_S
    expired = []
    for listener, certificates in node.certificates(call.state):
        ends = certificates.ends
        if all(end >= latest for end in ends.values()):
            continue
        found = {key: listener[key] for key in ("node", "port", "protocol")}
        found["interface"] = listener["ip_address"]
        for key, path in certificates.options.paths.items():
            if path in ends:
                found[key], found[f"{key}_expires_on"] = str(path), [_date(ends[path])]
        expired.append(found)
    if expired:
        raise failed("Certificates expiring", expired=expired)
    return ok(call)


def _date(seconds: float) -> str:
    """As RabbitMQ writes it: the hour has one digit before ten."""
    end = datetime.fromtimestamp(seconds, UTC)
    return f"{end:%Y-%m-%d} {end.hour}:{end:%M:%S}"


async def aliveness(call: Call) -> dict[str, Any]:
    """Declare a queue, publish to it and get from it, with the caller's permissions."""
    vhost = call.vhost()
    broker, user = call.state.broker, call.identity.user
    outcome: list[str] = []
    asked: list[QueueHandle] = []
    answer = Answer()

    def try_it() -> None:
        permissions = user.enter(vhost.name)
        permissions.check("configure", "queue", QUEUE)
        permissions.check("write", "exchange", "")
        permissions.check("read", "queue", QUEUE)
        queue = vhost.declare_queue(QUEUE)[0]
        cache = broker.route_cache(user, vhost, permissions)
        publisher = Publisher(vhost.table, cache, broker.budget, None)
        if publisher.send("", QUEUE, build_message(b"", NO_PROPERTIES, b"test_message")) != Outcome.TAKEN:
            outcome.append(queue.reason)
        else:
            asked.append(queue)
            queue.get(True, answer)

    try:
        broker.enter(try_it)
        for queue in asked:
            await answer.wait(queue)
            if answer.message is None:
                outcome.append("the message did not arrive")
    except NotAllowed:
        raise not_authorised("Access refused.") from None
    except AccessRefused:
        raise not_authorised("Access refused.") from None
    except AMQPError as error:
        raise failed(error.reply_text) from None
    if outcome:
        raise failed(outcome[0])
    return ok(call)


ENDPOINTS = [
    Endpoint("/aliveness-test/{vhost}", aliveness),
    Endpoint("/healthchecks/node", ok),
    Endpoint("/healthchecks/node/{node}", node_of_name),
    Endpoint("/health/checks/alarms", alarms),
    Endpoint("/health/checks/local-alarms", local_alarms),
    Endpoint("/health/checks/virtual-hosts", virtual_hosts),
    Endpoint("/health/checks/node-is-quorum-critical", alone),
    Endpoint("/health/checks/node-is-mirror-sync-critical", alone),
    Endpoint("/health/checks/port-listener/{port}", port_listener),
    Endpoint("/health/checks/protocol-listener/{protocol}", protocol_listener),
    Endpoint("/health/checks/certificate-expiration/{within}/{unit}", certificate_expiration),
    # From RabbitMQ 4.
    Endpoint("/health/checks/is-in-service", ok),
    Endpoint("/health/checks/ready-to-serve-clients", ok),
    Endpoint("/health/checks/below-node-connection-limit", below_connection_limit),
    Endpoint("/health/checks/reached-target-cluster-size", ok),
    Endpoint("/health/checks/metadata-store/initialized", definitions),
]

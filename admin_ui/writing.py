"""What handlers that change something need: the body as RabbitMQ reads it, the caller, the change, the reply.

Declarations go the way that an AMQP client's go (``vhosts.declarations``): with the caller's permissions, the
same rules and the same texts. A reply leaves once what was changed is stored.

Source: RabbitMQ's HTTP API, 3.10, as measured.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, TypeVar

from admin_ui import body, json_text, large_json
from admin_ui.endpoints import Call
from admin_ui.replies import ApiError, Done, bad_request, not_authorised
from amqp_router.channel.due import Due
from amqp_router.protocol.errors import (
    AccessRefused,
    AMQPError,
    FieldError,
    InternalError,
    NotAllowed,
    NotFound,
)
from amqp_router.protocol.fields import Field, Table, encode_table
from persistence.errors import PersistenceError
from vhosts.ports import Permissions
from vhosts.queues.handle import QueueHandle
from vhosts.vhost import VirtualHost

T = TypeVar("T")

#: What a virtual host may have as its default type of queues.
QUEUE_TYPES = ("classic", "quorum", "stream")
#: Octets of a body.
BODY_BYTES_MAX = 1 << 20
#: Larger bodies (octets) are read only a few at a time, because an arriving body is held in memory as a
#: whole.
SMALL_BODY_BYTES = 16 << 10
#: Values in a body, as many as a table in a frame of 128 KiB has at most: to free very many takes long, too.
VALUES_MAX = 1 << 16
#: Seconds between two checks whether the definition store still works.
LOOK_S = 0.2
#: Characters of a line that Erlang prints.
LINE_MAX = 80
NEXT_LINE = ",\n "


@dataclass(frozen=True)
class Caller:
    """A caller who declares over HTTP and owns no exclusive queue. See ``vhosts.declarations.Caller``."""

    vhost: VirtualHost
    permissions: Permissions
    connection: object = field(default_factory=object)


def caller(call: Call) -> Caller:
    """The caller in the virtual host that the path names.

    Raises:
        ApiError: there is no such virtual host (404), or the caller has no permission entry in it (401).
    """
    name = call.part("vhost") or "/"
    vhost = call.state.broker.vhosts.get(name)
    if vhost is None:
        if call.request.method == "PUT":
            raise ApiError(404, "not_found", "vhost_not_found")
        raise ApiError(404, "Object Not Found", "Not Found")
    try:
        return Caller(vhost, call.identity.user.enter(name))
    except NotAllowed:
        is_seen = call.identity.lists(name)
        raise not_authorised("Access refused." if is_seen else call.refusal) from None


def entered_vhost(call: Call) -> VirtualHost:
    """The virtual host that the path of a PUT names.

    Raises:
        ApiError: there is none (404), or the caller may not see it (401).
    """
    if (call.part("vhost") or "/") not in call.state.broker.vhosts:
        raise ApiError(404, "not_found", "vhost_not_found")
    return call.vhost()


def new_name(call: Call, part: str) -> str:
    """The name of the declared object in the path.

    Raises:
        ApiError: it is longer than AMQP's 255 octets (400).
    """
    name = call.part(part)
    octets("the name" if part == "name" else f"the name of the {part}", name)
    return name


# -- bodies ------------------------------------------------------------------------------------------


async def read_object(
    call: Call, bytes_max: int = BODY_BYTES_MAX, *, in_pieces: Collection[str] = ()
) -> dict[str, Any]:
    """The body, which is a JSON object; a missing body counts as an empty one. The content type is ignored.

    Members with names ``in_pieces`` may be `large_json.Pieces`.

    Raises:
        ApiError: it is not an object (400), too large, or does not arrive in time (408).
    """
    length = call.request.content_length
    if length is not None and length <= SMALL_BODY_BYTES:
        pieces = await body.read_pieces(call.request, bytes_max)
    else:
        async with call.state.large_bodies:
            pieces = await body.read_pieces(call.request, bytes_max)
    if await is_blank(call, pieces):
        return {}
    try:
        if sum(map(len, pieces)) <= SMALL_BODY_BYTES:
            found = json_text.loads(b"".join(pieces))
        else:
            found = {}
            for _ in large_json.read_object(pieces, found, values_max=VALUES_MAX, in_pieces=in_pieces):
                await call.turns.next()
    except json_text.UnrepeatableError as error:
        raise bad_request(str(error)) from None
    except (ValueError, RecursionError):
        raise bad_request("not_json") from None
    if not isinstance(found, dict):
        raise bad_request("not_json")
    return found


async def is_blank(call: Call, pieces: list[bytes]) -> bool:
    """Whether a body has nothing but white space."""
    for piece in pieces:
        if not piece.isspace():
            return False
        await call.turns.next()
    return True


def required(content: dict[str, Any], *names: str) -> None:
    """See that the body has all of ``names``.

    Raises:
        ApiError: some are missing (400).
    """
    missing = [f"{{key_missing,{name}}}" for name in names if name not in content]
    if missing:
        line = f"[{','.join(missing)}]"
        # Erlang begins a line for each if they are more than one line.
        raise bad_request(line if len(line) <= LINE_MAX else f"[{NEXT_LINE.join(missing)}]")


def boolean(content: dict[str, Any], name: str, default: bool = False) -> bool:
    """A boolean, or one of the strings "true" and "false", which rabbitmqadmin sends.

    Raises:
        ApiError: it is something else (400).
    """
    found = content.get(name, default)
    if isinstance(found, bool):
        return found
    if found in ("true", "false"):
        return bool(found == "true")
    raise bad_request(["not_boolean", shown_value(found)])


def shown_value(found: Any) -> Any:
    """A wrong value as an error shows it. A list or an object may be nested too deep to be sent back."""
    if isinstance(found, list):
        return "an array"
    if isinstance(found, dict):
        return "an object"
    return found[:100] if isinstance(found, str) else found


def text(content: dict[str, Any], name: str, default: str = "") -> str:
    """A string of at most 255 octets, as AMQP has them.

    Raises:
        ApiError: it is something else (400).
    """
    found = content.get(name, default)
    if not isinstance(found, str):
        raise bad_request(f"{name} is not a string")
    octets(name, found)
    return found


def tags_of(found: Any) -> list[str]:
    """Tags as a list, or as a text with commas between them.

    Raises:
        ApiError: they are something else (400).
    """
    names = found.split(",") if isinstance(found, str) else found
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise bad_request("tags is neither a text nor a list of texts")
    return [name.strip() for name in names if name.strip()]


def vhost_metadata(content: dict[str, Any]) -> dict[str, Any]:
    """What a body says of a virtual host: the fields of its row that are given.

    Raises:
        ApiError: one of them is wrong (400).
    """
    found: dict[str, Any] = {}
    if content.get("description") is not None:
        found["description"] = content["description"]
        if not isinstance(found["description"], str):
            raise bad_request("description is not a string")
    if content.get("tags") is not None:
        found["tags"] = tuple(tags_of(content["tags"]))
    if "tracing" in content:
        found["tracing"] = boolean(content, "tracing")
    queue_type = content.get("default_queue_type")
    if queue_type in ("", "undefined"):
        found["default_queue_type"] = ""
    elif queue_type is not None:
        if queue_type not in QUEUE_TYPES:
            raise bad_request(f"Unsupported default queue type: {queue_type}")
        found["default_queue_type"] = queue_type
    return found


def octets(name: str, found: str) -> bytes:
    """The octets of a name or key.

    Raises:
        ApiError: they are more than 255 (400).
    """
    data = found.encode()
    if len(data) > 255:
        raise bad_request(f"{name} has {len(data)} octets, 255 are the most")
    return data


def arguments(content: dict[str, Any]) -> Table:
    """The arguments as an AMQP table: integers are signed 64-bit ones, other numbers doubles.

    Raises:
        ApiError: they are not an object, or have a value that AMQP tables cannot have (400).
    """
    try:
        made = table(arguments_object(content))
        encode_table(made)
    except (FieldError, RecursionError) as error:
        raise bad_request(f"arguments: {error}") from None
    return made


def arguments_object(content: dict[str, Any]) -> dict[str, Any]:
    """The arguments as they are in the body.

    Raises:
        ApiError: they are not an object (400).
    """
    found = content.get("arguments", {})
    if found == []:  # what some clients make of an empty table
        return {}
    if not isinstance(found, dict):
        raise bad_request("arguments is not an object")
    return found


def table(found: dict[str, Any]) -> Table:
    """A JSON object as an AMQP table.

    Raises:
        ApiError: it has a value that such tables cannot have (400).
    """
    return {_name(name): argument(value) for name, value in found.items()}


def _name(name: str) -> str:
    octets("the name of an argument", name)
    return name


def argument(value: Any) -> Field:
    """A JSON value as a value of an AMQP table.

    Raises:
        ApiError: such tables cannot have it (400).
    """
    if isinstance(value, bool):
        return "t", value
    if isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 63:
            raise bad_request(f"{value} does not fit into 64 bits")
        return "l", value
    if isinstance(value, float):
        return "d", value
    if isinstance(value, str):
        return "S", value.encode()
    if isinstance(value, dict):
        return "F", table(value)
    if isinstance(value, list):
        return "A", [argument(each) for each in value]
    raise bad_request("null_not_allowed")


def flag(call: Call, name: str) -> bool:
    """A boolean of the query string, false by default.

    Raises:
        ApiError: it is neither ``true`` nor ``false`` (400).
    """
    found = call.request.query.get(name, "false")
    if found not in ("true", "false"):
        raise bad_request(f"{name} is true or false, not {found!r}")
    return found == "true"


# -- changes -----------------------------------------------------------------------------------------


async def change(call: Call, act: Callable[[], tuple[T, int]], *, wait: bool = True) -> T:
    """Run ``act`` as one step of the broker, wait until the revision it returns is stored; its result.

    Raises:
        ApiError: the broker refused it: 401 if the caller may not, 404 if a part of it is not there, 500 if
            the definitions cannot be stored, else 400, also for a ValueError.
    """
    outcome: list[tuple[T, int]] = []
    broker = call.state.broker
    broker.tick.now_us = broker.wall_us()
    try:
        broker.enter(lambda: outcome.append(act()))
    except AMQPError as error:
        raise refusal(error) from None
    except PersistenceError as error:
        raise ApiError(500, "internal_error", str(error)) from None
    except ValueError as error:
        raise bad_request(str(error)) from None
    result, rev = outcome[0]
    if wait:
        await stored(call, rev)
    return result


async def delivered(call: Call, queue: QueueHandle) -> None:
    """Let ``queue`` deliver what was published before, as for a method of AMQP that looks into a queue."""
    due = Due((queue,), whole=True)
    done: list[bool] = []
    while True:
        call.state.broker.enter(lambda: done.append(due.go_on()))
        if done[-1]:
            return
        await asyncio.sleep(0)


def refusal(error: AMQPError) -> ApiError:
    """The reply of RabbitMQ's API for an AMQP error of a declaration."""
    if isinstance(error, AccessRefused):
        return not_authorised("Access refused.")
    if isinstance(error, NotFound):
        return ApiError(404, "not_found", error.text)
    if isinstance(error, InternalError):
        return ApiError(500, "internal_error", error.text)
    return bad_request(error.text)


class _Waiter:
    """Waits for a revision of the definitions."""

    def __init__(self) -> None:
        self.done = asyncio.Event()

    def committed(self, rev: int) -> None:
        """See ``amqp_router.channel.ports.Commits``."""
        self.done.set()


async def stored(call: Call, rev: int) -> None:
    """Wait until revision ``rev`` of the definitions is stored.

    Raises:
        ApiError: it cannot be, for now (500).
    """
    commits = call.state.broker.commits
    if rev <= commits.committed:
        return
    waiter = _Waiter()
    try:
        commits.wait(rev, waiter)
        while not waiter.done.is_set():
            try:
                await asyncio.wait_for(waiter.done.wait(), LOOK_S)
            except TimeoutError:
                if commits.failed is not None:
                    raise InternalError(str(commits.failed)) from None
    except InternalError as error:
        raise refusal(error) from None


def created(made: bool) -> Done:
    """The answer to PUT: 201 if the object is new, 204 if it existed."""
    return Done(201 if made else 204)


DELETED = Done(204)

"""``/admin/v1/queues/{vhost}/{queue}/moves`` and ``/admin/v1/moves``: messages moved to another place.

POST of the first begins a move: ``to`` has ``queue``, or ``exchange`` and perhaps ``routing_key`` (without
one, each message keeps its own), and ``vhost`` if that is another; ``count`` is how many at most, all that
are ready without it. It answers at once; GET of ``/moves/{id}`` tells how far it is, and DELETE stops it. GET
of the first lists the moves from and to a queue, GET of ``/moves`` all, the newest first: those that run and
the last ones that have ended. A restart ends them and forgets them.

Beginning needs the permissions for getting and publishing: to read from the queue, and to write to the
exchange, which is the default one if the target is a queue. Stopping needs the first, or an administrator.

What a move does is written in ``vhosts.moves``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from aiohttp import web

from admin_ui.api.messages import amqp_fault, readable
from admin_ui.auth import ADMINISTRATOR
from admin_ui.endpoints import Call, Endpoint
from admin_ui.moving import Known, Moves
from admin_ui.replies import ApiError, Done, bad_request, not_authorised, not_found
from admin_ui.state import STATE
from admin_ui.writing import Caller, caller, delivered, read_object, required, text
from amqp_router.nearest import did_you_mean
from amqp_router.protocol.errors import AccessRefused, AMQPError, NotAllowed, ResourceLocked
from vhosts.errors import internal_exchange
from vhosts.move_target import Target

COUNT_MAX = (1 << 53) - 1
OWNER = "the owner of the data directory"
DEFAULT_EXCHANGE = "amq.default"

MOVES: web.AppKey[Moves] = web.AppKey("moves", Moves)


async def begin(call: Call) -> dict[str, Any]:
    """Begin to move the ready messages of the queue: ``to``, ``count``."""
    call.check_vhost()
    broker, moves = call.state.broker, call.request.app[MOVES]
    content = await read_object(call)
    required(content, "to")
    count = _count(content)
    who = caller(call)
    source = readable(who, call.part("queue"))
    target, about = _target(call, content["to"])
    if target.queue is source:
        raise bad_request(f"queue '{source.name}' is where the messages are: choose another one")
    if broker.alarms.on:
        raise ApiError(503, "blocked", f"the node blocks publishers: {broker.alarms.reason}")
    await delivered(call, source)
    if moves.is_full:
        raise ApiError(503, "too_many_moves", "too many moves run on this node: wait for one, or stop one")
    limit = source.message_count()
    known = moves.begin(
        source, target, limit if count is None else min(count, limit), call.identity.name or OWNER, about
    )
    return known.document(moves.now_ms())


def every(call: Call) -> list[dict[str, Any]]:
    """The moves that run and those that ended last, the newest first."""
    moves = call.request.app[MOVES]
    return [each.document(moves.now_ms()) for each in moves.all() if _is_visible(call, each)]


def of_queue(call: Call) -> list[dict[str, Any]]:
    """The moves from the queue and to it, the newest first."""
    vhost, name = call.vhost().name, call.part("queue")
    moves = call.request.app[MOVES]
    return [
        each.document(moves.now_ms())
        for each in moves.all()
        if _is_visible(call, each) and (vhost, name) in _ends(each)
    ]


def one(call: Call) -> dict[str, Any]:
    """One move: how far it is, or how it ended."""
    return _find(call).document(call.request.app[MOVES].now_ms())


def stop(call: Call) -> Done:
    """Stop a move: it takes no more messages, and those on their way arrive. One that has ended stays so."""
    known = _find(call)
    source = known.move.source
    if not call.identity.has(ADMINISTRATOR):
        try:
            call.identity.user.enter(source.vhost.name).check("read", "queue", source.name)
        except NotAllowed:
            raise not_authorised("Access refused.") from None
        except AccessRefused as error:
            raise not_authorised(error.reply_text) from None
    call.request.app[MOVES].stop(known)
    return Done(204)


def _find(call: Call) -> Known:
    """The move that the path names.

    Raises:
        ApiError: there is none, or it ended long ago (404).
    """
    number = call.part("id")
    known = None
    if number.isascii() and number.isdigit() and len(number) < 19:
        known = call.request.app[MOVES].find(int(number))
    if known is None or not _is_visible(call, known):
        raise not_found()
    return known


def _ends(known: Known) -> list[tuple[str, str]]:
    source = known.move.source
    return [(source.vhost.name, source.name), (known.target["vhost"], known.target.get("queue", ""))]


def _is_visible(call: Call, known: Known) -> bool:
    """Whether the caller may see both of its virtual hosts."""
    return all(call.identity.lists(vhost) for vhost, _ in _ends(known))


def _count(content: dict[str, Any]) -> int | None:
    count = content.get("count")
    if count is None:
        return None
    if isinstance(count, bool) or not isinstance(count, int) or not 0 < count <= COUNT_MAX:
        raise bad_request("count is a whole number above 0, or null for all messages")
    return count


def _target(call: Call, to: Any) -> tuple[Target, dict[str, Any]]:
    """Where the messages go, and what is told of it.

    Raises:
        ApiError: the body is wrong, or the target cannot take messages (400); there is none (404); the caller
            may not publish there (401).
    """
    if not isinstance(to, dict):
        raise bad_request("to is not an object")
    if ("queue" in to) == ("exchange" in to):
        raise bad_request("to has either queue or exchange")
    who = _caller_in(call, text(to, "vhost", call.part("vhost") or "/"))
    if "queue" in to:
        if "routing_key" in to:
            raise bad_request("to has routing_key: that belongs to an exchange, a queue needs none")
        return _to_queue(call, who, text(to, "queue"))
    key = text(to, "routing_key") if to.get("routing_key") is not None else None
    return _to_exchange(call, who, text(to, "exchange"), key)


def _to_queue(call: Call, who: Caller, name: str) -> tuple[Target, dict[str, Any]]:
    vhost, permissions = who.vhost, who.permissions
    _check_write(who, "")
    if name not in vhost.queues:
        raise ApiError(404, "not_found", _unknown("queue", name, vhost.name, vhost.queues))
    try:
        queue = vhost.find_queue(name, who.connection)
        queue.check_available()
    except AccessRefused as error:
        raise not_authorised(error.reply_text) from None
    except ResourceLocked:
        text = f"queue '{name}' in vhost '{vhost.name}' is exclusive and goes with its connection"
        raise bad_request(f"{text}; choose another one") from None
    except AMQPError as error:
        raise amqp_fault(error) from None
    cache = call.state.broker.route_cache(call.identity.user, vhost, permissions)
    return Target(vhost.table, cache, queue, routing_key=name), {"vhost": vhost.name, "queue": name}


def _to_exchange(call: Call, who: Caller, name: str, key: str | None) -> tuple[Target, dict[str, Any]]:
    vhost = who.vhost
    real = "" if name == DEFAULT_EXCHANGE else name
    _check_write(who, real)
    exchange = vhost.exchanges.get(real)
    if exchange is None:
        raise ApiError(404, "not_found", _unknown("exchange", name, vhost.name, vhost.exchanges))
    if exchange.internal:
        raise not_authorised(internal_exchange(name, vhost.name).reply_text)
    cache = call.state.broker.route_cache(call.identity.user, vhost, who.permissions)
    about = {"vhost": vhost.name, "exchange": real}
    if key is not None:
        about["routing_key"] = key
    return Target(vhost.table, cache, exchange=real, routing_key=key), about


def _check_write(who: Caller, exchange: str) -> None:
    try:
        who.permissions.check("write", "exchange", exchange)
    except AccessRefused as error:
        raise not_authorised(error.reply_text) from None


def _caller_in(call: Call, name: str) -> Caller:
    """The caller in the virtual host of that name.

    Raises:
        ApiError: there is none (404), or the caller has no permission entry in it (401).
    """
    vhost = call.state.broker.vhosts.get(name)
    if vhost is None:
        hint = _hint(name, (each for each in call.state.broker.vhosts if call.identity.lists(each)))
        raise ApiError(404, "not_found", f"no vhost '{name}'{hint}")
    try:
        return Caller(vhost, call.identity.user.enter(name))
    except NotAllowed:
        raise not_authorised("Access refused.") from None


def _unknown(kind: str, name: str, vhost: str, names: Iterable[str]) -> str:
    return f"no {kind} '{name}' in vhost '{vhost}'{_hint(name, names)}"


def _hint(name: str, names: Iterable[str]) -> str:
    hint = did_you_mean(name, names, repr)
    return f"; {hint}" if hint else ""


def add_routes(app: web.Application) -> None:
    """Keep the moves for all handlers, and end them with the server."""
    moves = app[MOVES] = Moves(app[STATE].broker)

    async def close(_: web.Application) -> None:
        moves.close()

    app.on_cleanup.append(close)


ENDPOINTS = [
    Endpoint("/queues/{vhost}/{queue}/moves", get=of_queue, post=begin),
    Endpoint("/moves", get=every),
    Endpoint("/moves/{id}", get=one, delete=stop),
]

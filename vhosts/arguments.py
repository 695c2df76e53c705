"""Arguments of queues and exchanges: which values are legal, and when a redeclaration differs.

``QUEUE_ARGUMENTS`` maps every argument known for queues to its check. Unknown arguments are stored and
otherwise ignored. ``UNSUPPORTED`` maps the legal arguments whose feature does not exist in this broker. A
declaration with one of them is refused by name, after all checks that RabbitMQ would make.

Source: the texts are those of RabbitMQ 3.10.8, measured.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TypedDict

from amqp_router.protocol.errors import PreconditionFailed
from amqp_router.protocol.fields import TYPE_NAMES, Field
from amqp_router.protocol.frames import EXPIRY_MS_MAX
from amqp_router.protocol.kept_table import Arguments, entries_in
from vhosts.errors import described, erlang
from vhosts.queues.settings import queue_type

#: Returns what is wrong with an argument, as RabbitMQ prints it, or "".
Check = Callable[[Field, Arguments], str]

PRIORITY_MAX = 255

_INTEGER_TAGS = frozenset("bBsuIilL")
_NUMBER_CLASSES = {**dict.fromkeys(_INTEGER_TAGS, "int"), "f": "float", "d": "float"}
_PLAIN_ATOM = re.compile(r"[a-z][A-Za-z0-9_@]*")
_MAX_AGE = re.compile(rb"\d+[YMDhms]")


# -- checks of one value ---------------------------------------------------------------------------


def _anything(field: Field, arguments: Arguments) -> str:
    """As RabbitMQ: what is no number, or a negative one, sets no limit."""
    return ""


def _integer(field: Field, arguments: Arguments) -> str:
    tag, _ = field
    return "" if tag in _INTEGER_TAGS else f'"expected integer, got {TYPE_NAMES[tag]}"'


def _not_negative(field: Field, arguments: Arguments) -> str:
    return _integer(field, arguments) or (f"{{value_negative,{field[1]}}}" if field[1] < 0 else "")


def _positive(field: Field, arguments: Arguments) -> str:
    return _not_negative(field, arguments) or ("{value_zero,0}" if field[1] == 0 else "")


def _message_ttl(field: Field, arguments: Arguments) -> str:
    too_large = f"{{value_too_large,{field[1]}}}"
    return _not_negative(field, arguments) or (too_large if field[1] > EXPIRY_MS_MAX else "")


def _expires(field: Field, arguments: Arguments) -> str:
    return _positive(field, arguments) or _message_ttl(field, arguments)


def _max_priority(field: Field, arguments: Arguments) -> str:
    too_large = f"{{max_value_exceeded,{field[1]}}}"
    return _not_negative(field, arguments) or (too_large if field[1] > PRIORITY_MAX else "")


def _text(field: Field, arguments: Arguments) -> str:
    return "" if field[0] == "S" else f"{{unacceptable_type,{TYPE_NAMES[field[0]]}}}"


def _boolean(field: Field, arguments: Arguments) -> str:
    return "" if field[0] == "t" else f"{{unacceptable_type,{TYPE_NAMES[field[0]]}}}"


def _dead_letter_routing_key(field: Field, arguments: Arguments) -> str:
    no_exchange = "" if "x-dead-letter-exchange" in arguments else "routing_key_but_no_dlx_defined"
    return _text(field, arguments) or no_exchange


def _overflow(field: Field, arguments: Arguments) -> str:
    known = field[1] in (b"drop-head", b"reject-publish", b"reject-publish-dlx")
    return _text(field, arguments) or ("" if known else "invalid_overflow")


def _max_age(field: Field, arguments: Arguments) -> str:
    return _text(field, arguments) or ("" if _MAX_AGE.fullmatch(field[1]) else "invalid_max_age")


def _one_of(what: str, *known: bytes) -> Check:
    def check(field: Field, arguments: Arguments) -> str:
        problem = _text(field, arguments)
        if problem or field[1] in known:
            return problem
        return f"\"unsupported {what} '{_shown(field[1])}'\""

    return check


def _dead_letter_strategy(field: Field, arguments: Arguments) -> str:
    known = field[1] in (b"at-most-once", b"at-least-once")
    return _text(field, arguments) or ("" if known else "invalid_dlx_strategy")


def _leader_locator(field: Field, arguments: Arguments) -> str:
    return _text(field, arguments) or ("" if field[1] in _LOCATORS else "invalid_queue_locator_arg")


def _queue_version(field: Field, arguments: Arguments) -> str:
    unknown = "" if field[1] in (1, 2) else f"\"unsupported queue version '{field[1]}'\""
    return _not_negative(field, arguments) or unknown


_LOCATORS = (b"client-local", b"balanced", b"random", b"least-leaders")

#: Every known argument of a queue, in the order in which they are checked and compared. A redeclaration
#: compares only the arguments of the queue's own type.
QUEUE_ARGUMENTS: dict[str, Check] = {
    "x-expires": _expires,
    "x-message-ttl": _message_ttl,
    "x-dead-letter-exchange": _text,
    "x-dead-letter-routing-key": _dead_letter_routing_key,
    "x-dead-letter-strategy": _dead_letter_strategy,
    "x-max-length": _not_negative,
    "x-max-length-bytes": _not_negative,
    "x-max-in-memory-length": _not_negative,
    "x-max-in-memory-bytes": _not_negative,
    "x-max-priority": _max_priority,
    "x-overflow": _overflow,
    "x-queue-mode": _one_of("queue mode", b"default", b"lazy"),
    "x-queue-version": _queue_version,
    "x-single-active-consumer": _boolean,
    "x-queue-type": _one_of("queue type", b"classic", b"quorum", b"stream"),
    "x-quorum-initial-group-size": _positive,
    "x-delivery-limit": _anything,
    "x-max-age": _max_age,
    "x-stream-max-segment-size-bytes": _not_negative,
    "x-initial-cluster-size": _positive,
    "x-queue-leader-locator": _leader_locator,
    # RabbitMQ answers 541 to a bad value.
    "x-queue-master-locator": _one_of("queue master locator", b"client-local", b"min-masters", b"random"),
    "x-partitions": _positive,
}

_LENGTH_ARGUMENTS = frozenset({"x-max-length", "x-max-length-bytes", "x-overflow"})
_COMMON_ARGUMENTS = frozenset(
    {
        "x-dead-letter-exchange",
        "x-dead-letter-routing-key",
        "x-expires",
        "x-message-ttl",
        "x-partitions",
        "x-queue-type",
        "x-single-active-consumer",
    }
)
#: Arguments that a queue of each type takes. Known arguments of another type are refused, unknown ones not.
_TYPE_ARGUMENTS = {
    "classic": _COMMON_ARGUMENTS
    | _LENGTH_ARGUMENTS
    | {
        "x-max-priority",
        "x-queue-mode",
        "x-queue-version",
        "x-queue-master-locator",
        "x-queue-leader-locator",
    },
    "quorum": _COMMON_ARGUMENTS
    | _LENGTH_ARGUMENTS
    | {
        "x-dead-letter-strategy",
        "x-delivery-limit",
        "x-max-in-memory-bytes",
        "x-max-in-memory-length",
        "x-queue-leader-locator",
        "x-quorum-initial-group-size",
    },
    "stream": frozenset(
        {
            "x-initial-cluster-size",
            "x-max-age",
            "x-max-length-bytes",
            "x-queue-leader-locator",
            "x-queue-type",
            "x-stream-max-segment-size-bytes",
        }
    ),
}

#: The arguments of a quorum queue that a redeclaration compares first, in RabbitMQ's order.
_QUORUM_ORDER = (
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-dead-letter-strategy",
    "x-expires",
    "x-max-length",
    "x-max-length-bytes",
    "x-max-in-memory-length",
    "x-max-in-memory-bytes",
    "x-overflow",
    "x-single-active-consumer",
    "x-queue-type",
    "x-quorum-initial-group-size",
    "x-delivery-limit",
    "x-message-ttl",
)

# -- what does not exist yet -----------------------------------------------------------------------


#: Arguments whose feature does not exist yet. The function tells whether a value needs the feature.
UNSUPPORTED: dict[str, Callable[[object], bool]] = {
    "x-queue-type": lambda value: value == b"stream",
    "x-partitions": lambda value: value != 1,
}


# -- queues ----------------------------------------------------------------------------------------


def check_queue_arguments(
    name: str, vhost: str, arguments: Arguments, *, durable: bool, exclusive: bool, auto_delete: bool
) -> None:
    """Refuse the arguments of a new queue if one is wrong or asks for a feature that does not exist yet.

    Raises:
        PreconditionFailed: 406, with RabbitMQ's text; or ``<argument> for queue ... is not supported yet``.
    """
    if not arguments:
        return
    queue = described("queue", name, vhost)
    dead_letter_exchange(name, vhost, arguments)
    _check_values(("x-queue-type",), queue, arguments)
    kind = queue_type(arguments)
    known = _TYPE_ARGUMENTS[kind]
    _check_values((each for each in QUEUE_ARGUMENTS if each in known), queue, arguments)
    strange = {each for each in QUEUE_ARGUMENTS if each not in known and each in arguments}
    if strange:
        first = next(each for each in arguments if each in strange)  # in the order that the client sent
        raise PreconditionFailed(f"invalid arg '{first}' for {queue} of queue type rabbit_{kind}_queue")
    if kind != "classic":
        for wrong, name_of_property in (
            (auto_delete, "auto-delete"),
            (exclusive, "exclusive-owner"),
            (not durable, "non-durable"),
        ):
            if wrong:
                raise PreconditionFailed(f"invalid property '{name_of_property}' for {queue}")
    for argument, needs_feature in UNSUPPORTED.items():
        if argument in arguments and needs_feature(arguments[argument][1]):
            shown = f"{argument} '{kind}'" if argument == "x-queue-type" else argument
            raise PreconditionFailed(f"{shown} for {queue} is not supported yet")


def _check_values(checked: Iterable[str], queue: str, arguments: Arguments) -> None:
    for argument in checked:
        if argument in arguments:
            problem = QUEUE_ARGUMENTS[argument](arguments[argument], arguments)
            if problem:
                raise PreconditionFailed(f"invalid arg '{argument}' for {queue}: {problem}")


def with_default_type(
    arguments: Arguments, default: str, *, durable: bool, exclusive: bool, auto_delete: bool
) -> Arguments:
    """``arguments`` of a declaration, with the virtual host's default type if they name none.

    A queue that cannot be of that type gets none, and is classic. "" is no default.

    Source: RabbitMQ, "Virtual Hosts", default queue type; as measured with 3.10.8.
    """
    is_possible = default == "classic" or (durable and not exclusive and not auto_delete)
    if not default or not is_possible or "x-queue-type" in arguments:
        return arguments
    return {**arguments, "x-queue-type": ("S", default.encode())}


def dead_letter_exchange(name: str, vhost: str, arguments: Arguments) -> str | None:
    """The exchange that queue ``name`` dead-letters to.

    Raises:
        PreconditionFailed: the argument is not a string.
    """
    return _exchange_argument("x-dead-letter-exchange", described("queue", name, vhost), arguments)


def check_queue_equivalence(
    name: str, vhost: str, current: tuple[bool, bool, Arguments], received: tuple[bool, bool, Arguments]
) -> None:
    """Refuse a redeclaration that differs. Both tuples are (durable, auto_delete, arguments).

    Raises:
        PreconditionFailed: ``inequivalent arg ...``.
    """
    queue = described("queue", name, vhost)
    _check_same("durable", queue, current[0], received[0])
    _check_same("auto_delete", queue, current[1], received[1])
    kind = queue_type(current[2])
    order = QUEUE_ARGUMENTS if kind != "quorum" else dict.fromkeys((*_QUORUM_ORDER, *QUEUE_ARGUMENTS))
    compared = [argument for argument in order if argument in _TYPE_ARGUMENTS[kind]]
    if _is_classic(current[2]) and _is_classic(received[2]):
        compared.remove("x-queue-type")  # an omitted type equals "classic"
    _check_arguments(compared, queue, current[2], received[2])


def _is_classic(arguments: Arguments) -> bool:
    return arguments.get("x-queue-type", ("S", b"classic")) == ("S", b"classic")


# -- exchanges -------------------------------------------------------------------------------------

EXCHANGE_ARGUMENTS = ("alternate-exchange",)


def alternate_exchange(name: str, vhost: str, arguments: Arguments) -> str | None:
    """The exchange that takes what exchange ``name`` cannot route.

    Raises:
        PreconditionFailed: the argument is not a string.
    """
    return _exchange_argument("alternate-exchange", described("exchange", name, vhost), arguments)


class ExchangeAttributes(TypedDict):
    """What a redeclaration of an exchange must repeat."""

    type: str
    durable: bool
    auto_delete: bool
    internal: bool
    arguments: Arguments


def check_exchange_equivalence(
    name: str, vhost: str, current: ExchangeAttributes, received: ExchangeAttributes
) -> None:
    """Refuse a redeclaration that differs in type, durable, auto_delete, internal or arguments.

    Raises:
        PreconditionFailed: ``inequivalent arg ...``.
    """
    exchange = described("exchange", name, vhost)
    _check_same("type", exchange, _atom(current["type"]), _atom(received["type"]))
    _check_same("durable", exchange, current["durable"], received["durable"])
    _check_same("auto_delete", exchange, current["auto_delete"], received["auto_delete"])
    _check_same("internal", exchange, current["internal"], received["internal"])
    _check_arguments(EXCHANGE_ARGUMENTS, exchange, current["arguments"], received["arguments"])


# -- bindings --------------------------------------------------------------------------------------

#: Most arguments of a binding. They are sorted, as two bindings are the same whatever the order of their
#: arguments: with 25,000, which fit into a frame of 128 KiB, one took 38 ms, in which nobody else was served.
BINDING_ARGUMENTS_MAX = 2048


def are_too_many(arguments: Arguments) -> bool:
    """Whether no binding has so many arguments."""
    return entries_in(arguments) > BINDING_ARGUMENTS_MAX


def check_binding_arguments(exchange: str, vhost: str, arguments: Arguments) -> None:
    """Refuse a binding of ``exchange`` with more arguments than one may have.

    Raises:
        PreconditionFailed: 406, with both numbers.
    """
    if are_too_many(arguments):
        raise PreconditionFailed(
            f"a binding of {described('exchange', exchange, vhost)} with {entries_in(arguments)} arguments: "
            f"at most {BINDING_ARGUMENTS_MAX} are allowed"
        )


# -- all -------------------------------------------------------------------------------------------


def _exchange_argument(argument: str, subject: str, arguments: Arguments) -> str | None:
    if argument not in arguments:
        return None
    tag, value = arguments[argument]
    if tag != "S":
        raise PreconditionFailed(f"invalid type '{TYPE_NAMES[tag]}' for arg '{argument}' in {subject}")
    return _shown(value)


def _check_same(attribute: str, subject: str, current: object, received: object) -> None:
    if current != received:
        raise _inequivalent(attribute, subject, f"'{_plain(current)}'", f"'{_plain(received)}'")


def _atom(name: str) -> str:
    """``name`` as Erlang prints an atom: in quotes unless it is a plain word."""
    return name if _PLAIN_ATOM.fullmatch(name) else f"'{name}'"


def _check_arguments(compared: Iterable[str], subject: str, current: Arguments, received: Arguments) -> None:
    for argument in compared:
        one, other = current.get(argument), received.get(argument)
        if one is None or other is None:
            if one is not other:
                raise _inequivalent(argument, subject, _typed(one), _typed(other))
        elif not _equal(one, other):
            raise _inequivalent(argument, subject, f"'{_plain(one[1])}'", f"'{_plain(other[1])}'")


def _equal(one: Field, other: Field) -> bool:
    """Whether two values are the same. Integers of any width compare by value; a float never equals an
    integer.
    """
    if one[1] != other[1]:
        return False
    return _NUMBER_CLASSES.get(one[0]) == _NUMBER_CLASSES.get(other[0]) and (one[0] == "t") == (
        other[0] == "t"
    )


def _inequivalent(argument: str, subject: str, current: str, received: str) -> PreconditionFailed:
    return PreconditionFailed(
        f"inequivalent arg '{argument}' for {subject}: received {received} but current is {current}"
    )


def _typed(field: Field | None) -> str:
    if field is None:
        return "none"
    return f"the value '{_plain(field[1])}' of type '{TYPE_NAMES[field[0]]}'"


def _plain(value: object) -> str:
    return _shown(value) if isinstance(value, bytes) else erlang(value)


def _shown(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")

"""What a dead-lettered message says of its deaths: the header ``x-death`` and those around it.

``x-death`` is an array of tables, one for each queue and reason, the last death first; a death of a kind
that is there already moves to the front and is counted. The headers ``x-first-death-...`` are written with
the first death. A message's own expiration is noted and removed, or it would expire in the next queue too.

Compiled: see ``death.pxd``.

Source: RabbitMQ, "Dead Letter Exchanges"; layout, order and types as measured with 3.10.8.

Most messages die for the first time. Then some headers come behind the message's own, and those of one queue,
reason and second have them in common. They are put between the octets (``again``), and nothing is decoded.
"""

from __future__ import annotations

from amqp_router.protocol import flags
from amqp_router.protocol.errors import FieldError
from amqp_router.protocol.fields import Field, Table, encode_table, outer_field, outer_table, unnested
from amqp_router.protocol.frames import NO_EXPIRY
from amqp_router.protocol.message import Message, content_header
from amqp_router.protocol.nested import DECODED_DEPTH
from amqp_router.protocol.properties import decode_properties, encode_properties, with_fields

REJECTED = "rejected"
EXPIRED = "expired"
MAXLEN = "maxlen"
DELIVERY_LIMIT = "delivery_limit"

#: Octets of ``x-death`` up to which values are made of all its tables, and of how many of a longer one.
SHORT_BYTES = 4096
DEATHS_MAX = 512
#: Deaths of a message up to which a set of its queues is made.
FEW_DEATHS = 16

_TABLE = ord("F")
_NO_EXPIRY = NO_EXPIRY  # a C integer where compiled
#: Replaced, never changed.
_NO_PROPERTIES = decode_properties(b"\0\0")


class Death:
    """One death of one message, and of those after it that say the same (``is_of``)."""

    __slots__ = (
        "_channel_of",
        "_cycles",
        "_encoded",
        "_expiration",
        "_fields",
        "_header",
        "_is_persistent",
        "_keeps_keys",
        "_received",
        "_route",
        "_size_of",
        "_time_s",
        "exchange",
        "properties",
        "queue",
        "reason",
        "routing_key",
    )

    def __init__(self) -> None:
        self.queue = self.reason = ""
        #: As the message was published; ``exchange`` and ``routing_key`` are octets.
        self.exchange = self.routing_key = b""
        self._route = b""
        self._received = b""
        #: Those of the first message that died so (``again``).
        self.properties = _NO_PROPERTIES
        self._is_persistent = False
        #: The fields behind those of the message, and its expiration as octets, if all else stays as it is.
        self._fields = b""
        self._expiration = b""
        self._time_s = 0
        self._keeps_keys = False
        self._cycles: set[str] | None = None
        #: The new properties as octets, and the last content header made of them with its body's size and
        #: channel.
        self._encoded = b""
        self._header = b""
        self._size_of = -1
        self._channel_of = 0

    def is_of(self, message: Message, queue: str, reason: str, time_s: int, keeps_keys: bool) -> bool:
        """Whether ``message`` dies the same death. Then what is noted here holds for it, too, if it has the
        same properties (``has_properties_of``), and mostly otherwise (``again``).
        """
        return (
            self._time_s == time_s
            and self.queue == queue
            and self.reason == reason
            and self._keeps_keys == keeps_keys
            and self._route == message.route
        )

    def again(self, message: Message) -> Death | None:
        """The same death of ``message``, which differs in its properties alone (``is_of``); None if it has to
        be noted anew.
        """
        received = message.properties()
        if not self._fields or b"-death" in received or b"\x02CC" in received or b"\x03BCC" in received:
            return None
        found = with_fields(received, self._fields, self._expiration)
        if found is None:
            return None
        other = Death()
        other.queue = self.queue
        other.reason = self.reason
        other.exchange = self.exchange
        other.routing_key = self.routing_key
        other.properties = self.properties
        other._route = self._route
        other._received = received
        other._time_s = self._time_s
        other._keeps_keys = self._keeps_keys
        other._cycles = self._cycles
        other._fields = self._fields
        other._expiration = self._expiration
        other._encoded = found[0]
        other._is_persistent = found[1] == 2
        return other

    def has_further_keys(self) -> bool:
        """Whether the message has ``CC`` or ``BCC``, by which it is routed, too."""
        headers = self.properties.get("headers", {})
        return "CC" in headers or "BCC" in headers

    def has_properties_of(self, message: Message) -> bool:
        """Whether ``message`` was published with the same properties."""
        return self._received == message.properties()

    def note(self, message: Message, queue: str, reason: str, time_s: int, keeps_keys: bool) -> None:
        """Write the death of ``message``, which has its content, into the properties.

        Without ``keeps_keys`` ``CC`` goes: another key is used.

        Raises:
            FieldError: its properties are malformed.
        """
        self.queue = queue
        self.reason = reason
        self.exchange, self.routing_key = _split(message.route)
        self._route = message.route
        self._received = message.properties()
        self.properties = decode_properties(self._received, True)
        self._is_persistent = self.properties.get("delivery_mode") == 2
        self._time_s = time_s
        self._keeps_keys = keeps_keys
        octets = self.properties.get("headers")
        headers: Table = {} if octets is None else outer_table(octets, 0)
        known_before = len(headers)
        is_first = (
            "x-death" not in headers
            and not _has_first_death(headers)
            and "CC" not in headers
            and "BCC" not in headers
        )
        keys = [("S", self.routing_key)]
        further = headers.get("CC")
        if further is not None and further[0] == "A":
            further = unnested(further)
            keys += [item for item in further[1] if item[0] == "S"]
        entry: Table = {
            "count": ("l", 1),
            "reason": ("S", self.reason.encode()),
            "queue": ("S", _octets(self.queue)),
            "time": ("T", time_s),
            "exchange": ("S", self.exchange),
            "routing-keys": ("A", keys),
        }
        expiration = self.properties.pop("expiration", None)
        if expiration is not None:
            entry["original-expiration"] = ("S", _octets(expiration))
        deaths, rest, has_died = _deaths_like(headers, entry)
        for index, (_, octets) in enumerate(deaths):
            if entry["queue"][1] not in octets or entry["reason"][1] not in octets:
                continue  # it is not this kind; very many are passed over undecoded
            known = outer_table(octets, 0)
            if known.get("queue") == entry["queue"] and known.get("reason") == entry["reason"]:
                del deaths[index]
                entry = {**known, "count": ("l", _count(known) + 1)}
                break
        else:
            found = _find_beyond(rest, entry)
            if found is not None:
                entry, rest = found
            elif not has_died and not _has_first_death(headers):
                headers["x-first-death-exchange"] = entry["exchange"]
                headers["x-first-death-queue"] = entry["queue"]
                headers["x-first-death-reason"] = entry["reason"]
        headers["x-death"] = _array([("F", entry), *deaths], rest)
        if not keeps_keys:
            headers.pop("CC", None)
            headers.pop("BCC", None)
        self.properties["headers"] = headers
        if is_first:
            self._fields = encode_table(dict(list(headers.items())[known_before:]))[4:]
            if expiration is not None:
                text = _octets(expiration)
                self._expiration = b"%c%b" % (len(text), text)

    def cycles(self) -> set[str]:
        """The queues to which the message would come again without anybody ever having rejected it."""
        if self._cycles is None:
            self._cycles = self._queues_without_rejection()
        return self._cycles

    def comes_round(self, queue: str) -> bool:
        """Whether ``queue`` is one of them. Of very many deaths no set is made: 512 took 5 ms."""
        tables = _tables(self.properties["headers"]) if self._cycles is None else []
        if len(tables) <= FEW_DEATHS:
            return queue in self.cycles()
        if self.reason == REJECTED:
            return False
        name, rejected = _octets(queue), REJECTED.encode()
        for table in tables:
            if isinstance(table, bytes) and name not in table and rejected not in table:
                continue
            known = outer_table(table, 0) if isinstance(table, bytes) else table
            if known.get("reason") == ("S", rejected):
                return False
            if known.get("queue") == ("S", name):
                return True
        return False

    def _queues_without_rejection(self) -> set[str]:
        queues: set[str] = set()
        if self.reason == REJECTED:
            return queues
        for _, value in _deaths(self.properties["headers"])[0]:
            known = outer_table(value, 0) if isinstance(value, bytes) else value
            if known.get("reason") == ("S", REJECTED.encode()):
                break
            kind, name = known.get("queue", ("", b""))
            if kind == "S":
                queues.add(name.decode("utf-8", "surrogateescape"))
        return queues

    def message(self, original: Message) -> Message:
        """The message with these properties, around the same body."""
        if self._size_of != original.body_size or self._channel_of != original.channel:
            self._make_header(original.body_size, original.channel)
        header = self._header
        content = original.content
        assert content is not None
        made = original.copy()
        made.flags = flags.PERSISTENT if self._is_persistent else 0
        made.deadline_us = 0
        made.expire_ms = _NO_EXPIRY
        made.extras = None
        made.header_size = len(header)
        if isinstance(content, bytes):
            made.content = header + content[original.header_size :]
        else:
            made.content = (header, *[content[index] for index in range(1, len(content))])
        return made

    def encoded(self) -> bytes:
        """The properties as octets."""
        if not self._encoded:
            self._encoded = encode_properties(self.properties)
        return self._encoded

    def _make_header(self, body_size: int, channel: int) -> None:
        header = content_header(self.encoded(), body_size)
        self._header = header[:1] + channel.to_bytes(2, "big") + header[3:]  # as the frames of the body
        self._size_of = body_size
        self._channel_of = channel


def _deaths(headers: Table) -> tuple[list[Field], bytes]:
    """The tables of ``x-death``; those of the message as it came are octets. And the octets of further ones.

    A client's array of 24,000 empty tables would hold the loop for 30 ms if a value were made of each. Of a
    long array that is done with the first ``DEATHS_MAX`` tables, which are the last deaths.
    """
    found = headers.get("x-death")
    if found is None or found[0] != "A":
        return [], b""
    octets = found[1]
    if not isinstance(octets, bytes) or len(octets) <= SHORT_BYTES:
        return [item for item in unnested(found, DECODED_DEPTH)[1] if item[0] == "F"], b""
    deaths: list[Field] = []
    position, end = 4, len(octets)
    while position < end and len(deaths) < DEATHS_MAX and octets[position] == _TABLE:
        death = outer_field(octets, position)
        deaths.append(death)
        position += 1 + len(death[1])
    return deaths, octets[position:]


def _deaths_like(headers: Table, entry: Table) -> tuple[list[Field], bytes, bool]:
    """As ``_deaths``, and whether there is any; just octets of a long array without the kind of ``entry``."""
    kind, octets = headers.get("x-death", ("", b""))
    is_long = kind == "A" and isinstance(octets, bytes) and len(octets) > SHORT_BYTES and octets[4] == _TABLE
    if is_long and (entry["queue"][1] not in octets or entry["reason"][1] not in octets):
        return [], octets[4:], True
    deaths, rest = _deaths(headers)
    return deaths, rest, bool(deaths)


def _tables(headers: Table) -> list[Table | bytes]:
    """Those of ``_deaths``, without a value of each."""
    found = headers["x-death"][1]
    if not isinstance(found, bytes):
        return [value for kind, value in found if kind == "F"]
    tables: list[Table | bytes] = []
    position = 4
    while position < len(found) and len(tables) < DEATHS_MAX and found[position] == _TABLE:
        end = position + 5 + int.from_bytes(found[position + 1 : position + 5], "big")
        tables.append(found[position + 1 : end])
        position = end
    return tables


def _find_beyond(further: bytes, entry: Table) -> tuple[Table, bytes] | None:
    """The death of the kind of ``entry`` among ``further`` ones, counted once more, and what is left of them;
    None if there is none.
    """
    queue, reason = entry["queue"][1], entry["reason"][1]
    if queue not in further or reason not in further:
        return None
    position, decoded = 0, 0
    while position < len(further) and further[position] == _TABLE and decoded < DEATHS_MAX:
        end = position + 5 + int.from_bytes(further[position + 1 : position + 5], "big")
        octets = further[position + 1 : end]
        if queue in octets and reason in octets:
            decoded += 1
            known = outer_table(octets, 0)
            if known.get("queue") == entry["queue"] and known.get("reason") == entry["reason"]:
                counted = {**known, "count": ("l", _count(known) + 1)}
                return counted, further[:position] + further[end:]
        position = end
    return None


def _array(deaths: list[Field], further: bytes) -> Field:
    """``x-death`` of these tables and the octets of ``further`` ones."""
    if not further:
        return "A", deaths
    tables = [item if isinstance(item, bytes) else encode_table(item) for _, item in deaths]
    octets = b"".join([b"F" + table for table in tables]) + further
    return "A", len(octets).to_bytes(4, "big") + octets


def _has_first_death(headers: Table) -> bool:
    return any(name.startswith("x-first-death-") for name in headers)


def _count(entry: Table) -> int:
    count = entry.get("count", ("l", 1))[1]
    return count if isinstance(count, int) and 0 <= count < (1 << 62) else 1


def _split(route: bytes) -> tuple[bytes, bytes]:
    """Exchange and routing key of two short strings."""
    middle = 1 + route[0]
    return route[1:middle], route[middle + 1 :]


def _octets(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


__all__ = ["DELIVERY_LIMIT", "EXPIRED", "MAXLEN", "REJECTED", "Death", "FieldError"]

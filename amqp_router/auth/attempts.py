"""Counts logins by protocol, and those of each client's address.

Source: RabbitMQ's HTTP API, ``/auth/attempts``. RabbitMQ counts addresses only if an option says so; here at
most `SOURCES_MAX` of them are counted, the others together.
"""

from __future__ import annotations

from dataclasses import dataclass

#: RabbitMQ's names of the protocols.
AMQP, HTTP = "amqp091", "http"
#: Addresses counted by themselves.
SOURCES_MAX = 1000
#: In place of the address of those beyond.
OTHERS = "others"


@dataclass(slots=True)
class Count:
    """Attempts of one protocol, or of one address with it."""

    succeeded: int = 0
    failed: int = 0

    def add(self, *, success: bool) -> None:
        """One more attempt."""
        if success:
            self.succeeded += 1
        else:
            self.failed += 1


class Attempts:
    """All attempts to log in since the start, or since they were forgotten."""

    def __init__(self, *protocols: str) -> None:
        self.by_protocol = {protocol: Count() for protocol in protocols}
        #: By address and protocol.
        self.by_source: dict[tuple[str, str], Count] = {}
        #: All attempts since the start by protocol, for counters that must never fall.
        self.ever = {protocol: Count() for protocol in protocols}

    def note(self, protocol: str, address: str, *, success: bool) -> None:
        """Count an attempt to log in over ``protocol``, of those given at the beginning."""
        self.by_protocol[protocol].add(success=success)
        self.ever[protocol].add(success=success)
        key = address, protocol
        if key not in self.by_source and len(self.by_source) >= SOURCES_MAX:
            key = OTHERS, protocol
        self.by_source.setdefault(key, Count()).add(success=success)

    def forget(self) -> None:
        """Begin anew."""
        self.by_protocol = {protocol: Count() for protocol in self.by_protocol}
        self.by_source.clear()

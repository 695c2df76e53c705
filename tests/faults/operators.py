"""Loads that operators make over HTTP: lists, viewers, imports and policies over very many objects."""

from __future__ import annotations

import base64
import http.client
import json
import time
from typing import Any

from tests.faults.costly import SETUP_S
from tests.faults.loads import Outcome
from tests.faults.place import CaseLoad, Place, answers, connect, method
from tests.interop.wire import Wire

QUEUES, VIEWERS, OBJECTS = 10_000, 200, 50_000
#: Viewers that are one user: fewer than the broker lets one user have.
OF_A_USER = 20
PASSWORD = "looks-only"
#: What the pages watch.
TOPICS = "overview,queues,connections,exchanges"


class Http:
    """One connection to the HTTP API."""

    def __init__(self, place: Place, user: str = "guest", password: str = "guest") -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", place.admin_port, timeout=SETUP_S)
        login = base64.b64encode(f"{user}:{password}".encode()).decode()
        self.headers = {"Authorization": f"Basic {login}", "Content-Type": "application/json"}

    def ask(self, verb: str, path: str, body: Any = None) -> bytes:
        """The body of the answer.

        Raises:
            AssertionError: the status is an error.
        """
        data = None if body is None else json.dumps(body)
        self.connection.request(verb, path, data, self.headers)
        answer = self.connection.getresponse()
        content = answer.read()
        assert answer.status < 300, f"{verb} {path}: {answer.status} {content[:200]!r}"
        return content

    def watch(self, topics: str) -> http.client.HTTPResponse:
        """A stream of the pages' events."""
        self.connection.request("GET", f"/admin/v1/events?topics={topics}", headers=self.headers)
        answer = self.connection.getresponse()
        assert answer.status == 200, answer.read()[:200]
        return answer

    def close(self) -> None:
        self.connection.close()


def many_queues(place: Place, *, durable: bool = False) -> tuple[Wire, int]:
    """A connection that has made the queues; how many."""
    wire = connect(place)
    wire.socket.settimeout(SETUP_S)
    count = place.of(QUEUES)
    for start in range(0, count, 1000):
        wire.send_bytes(
            b"".join(
                method("queue.declare", queue=f"listed-{number}", durable=durable, nowait=True)
                for number in range(start, min(start + 1000, count))
            )
        )
    assert answers(wire, SETUP_S), "the queues were not made"
    return wire, count


def forget_queues(wire: Wire, count: int) -> None:
    for start in range(0, count, 1000):
        wire.send_bytes(
            b"".join(
                method("queue.delete", queue=f"listed-{number}", nowait=True)
                for number in range(start, min(start + 1000, count))
            )
        )
    assert answers(wire, SETUP_S), "the queues were not deleted"
    wire.close()


def lists(place: Place, seconds: float) -> Outcome:
    """10,000 queues: whole lists and sorted pages of them, one after the other."""
    wire, count = many_queues(place)
    client = Http(place)
    paths = [
        "/api/queues",
        "/api/queues?page=1&page_size=100&sort=messages&sort_reverse=true&name=1",
    ]
    begun, asked, listed = time.monotonic(), 0, 0
    while not asked or time.monotonic() - begun < seconds:
        for path in paths:
            found = json.loads(client.ask("GET", path))
            listed = max(listed, len(found) if isinstance(found, list) else found["total_count"])
            asked += 1
    client.close()
    forget_queues(wire, count)
    return Outcome(count, count, "" if listed >= count else f"a list had {listed} queues", f"{asked} lists")


def viewers(place: Place, seconds: float) -> Outcome:
    """200 pages watch the overview and three lists each; of 10,000 queues one changes."""
    wire, count = many_queues(place)
    admin, users, streams = Http(place), place.of(VIEWERS // OF_A_USER), []
    for number in range(users):
        admin.ask("PUT", f"/api/users/viewer-{number}", {"password": PASSWORD, "tags": "monitoring"})
        admin.ask(
            "PUT", f"/api/permissions/%2F/viewer-{number}", dict.fromkeys(("configure", "write", "read"), "")
        )
    clients = [Http(place, f"viewer-{number % users}", PASSWORD) for number in range(place.of(VIEWERS))]
    streams = [client.watch(TOPICS) for client in clients]
    begun, published, got = time.monotonic(), 0, 0
    while not published or time.monotonic() - begun < seconds:
        wire.publish(1, "", f"listed-{published % count}", b"x")
        published += 1
        for stream in streams:
            got += len(stream.read1(1 << 20))
    for client in clients:
        client.close()
    for number in range(users):
        admin.ask("DELETE", f"/api/users/viewer-{number}")
    admin.close()
    forget_queues(wire, count)
    return Outcome(published, published, note=f"{len(clients)} viewers, {got // 1024:,} KiB")


def imports(place: Place, seconds: float) -> Outcome:
    """Definitions of 50,000 objects are imported: 10,000 queues, 10,000 exchanges, 30,000 bindings."""
    fifth = place.of(OBJECTS // 5)
    common: dict[str, Any] = {"vhost": "imported", "durable": True, "auto_delete": False, "arguments": {}}
    definitions = {
        "vhosts": [{"name": "imported"}],
        "queues": [{"name": f"q{number}", **common} for number in range(fifth)],
        "exchanges": [
            {"name": f"e{number}", "type": "topic", "internal": False, **common} for number in range(fifth)
        ],
        "bindings": [
            {
                "vhost": "imported",
                "source": f"e{number % fifth}",
                "destination": f"q{number * 7 % fifth}",
                "destination_type": "queue",
                "routing_key": f"key.{number}",
                "arguments": {},
            }
            for number in range(3 * fifth)
        ],
    }
    client = Http(place)
    begun, rounds, longest = time.monotonic(), 0, 0.0
    while not rounds or time.monotonic() - begun < seconds:
        began = time.monotonic()
        client.ask("POST", "/api/definitions", definitions)
        longest = max(longest, time.monotonic() - began)
        rounds += 1
        queues = json.loads(client.ask("GET", "/api/queues/imported?columns=name"))
        if len(queues) != fifth:
            return Outcome(0, 0, f"{len(queues)} of {fifth} queues were imported")
        client.ask("DELETE", "/api/vhosts/imported")
    client.close()
    return Outcome(rounds * 5 * fifth, rounds * 5 * fifth, note=f"up to {longest:.1f} s for one import")


def policies(place: Place, seconds: float) -> Outcome:
    """A policy of 10,000 durable queues is changed again and again."""
    wire, count = many_queues(place, durable=True)
    client = Http(place)
    begun, changes, longest = time.monotonic(), 0, 0.0
    while not changes or time.monotonic() - begun < seconds:
        changes += 1
        body = {
            "pattern": "^listed-",
            "apply-to": "queues",
            "definition": {"max-length": 1000 + changes, "message-ttl": 60_000 + changes},
        }
        began = time.monotonic()
        client.ask("PUT", "/api/policies/%2F/soaked", body)
        while not obeyed(client, count, 1000 + changes):
            if time.monotonic() - began > SETUP_S:
                return Outcome(0, 0, "the last queue did not obey")
        longest = max(longest, time.monotonic() - began)
    client.ask("DELETE", "/api/policies/%2F/soaked")
    client.close()
    forget_queues(wire, count)
    return Outcome(changes * count, changes * count, note=f"{changes} changes, up to {longest:.2f} s")


def obeyed(client: Http, count: int, length: int) -> bool:
    """Whether the last queue obeys the policy."""
    found = json.loads(client.ask("GET", f"/api/queues/%2F/listed-{count - 1}"))
    return bool((found.get("effective_policy_definition") or {}).get("max-length") == length)


OPERATORS: dict[str, CaseLoad] = {
    "D1 10,000 queues listed": lists,
    "D2 200 viewers": viewers,
    "D3 50,000 objects imported": imports,
    "D4 a policy of 10,000 queues": policies,
}

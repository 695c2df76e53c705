"""HTTP cases: raw requests to every endpoint of the admin server, right and wrong, read and not read."""

from __future__ import annotations

import base64
import http.client
import json
import re
from random import Random
from typing import Any

from admin_ui.api import ENDPOINTS, OBJECTS
from tests.fuzz.amqp import mutated
from tests.fuzz.core import Case
from tests.fuzz.sockets import play
from tests.fuzz.watched import Watched
from tests.interop.wire import Wire

PATHS = (
    ["/api" + endpoint.path for endpoint in ENDPOINTS]
    + ["/admin/v1" + endpoint.path for endpoint in OBJECTS]
    + ["/admin/v1/events", "/admin/v1/sparklines", "/admin/v1/session"] * 4
    + ["/", "/ui", "/ui/queues", "/ui/queues/%2F/fz-0", "/ui/static/x/app.mjs", "/ui/static/../../etc/passwd"]
    + ["/favicon.ico", "/api", "/api/", "/api/index.html", "/doc/stats.html", "/nope", "//api/overview", "*"]
)
READS = ("GET", "GET", "GET", "GET", "GET", "GET", "GET", "HEAD", "OPTIONS")
WRITES = ("POST", "PUT", "DELETE", "PATCH", "TRACE", "CONNECT", "get", "PROPFIND", "G\xe9T", "")
#: What a request may read, and what it may try to change: nothing of the honest client's.
NAMES = [
    "%2F",
    "/",
    "fz-0",
    "fz-1",
    "fz-x0",
    "honest",
    "guest",
    "amq.topic",
    "amq.default",
    "e",
    "q",
    "~",
    "%2E%2E",
    "..",
    "~..",
    "%00",
    "%ff%fe",
    "%C3%A9",
    "a%2Fb",
    "{x}",
    "127.0.0.1%3A5672",
    "router%40test",
    "15672",
    "5672",
    "amqp",
    "days",
    "1",
    "0",
    "-1",
    "999999999999999999999",
    "x%20y",
    "%1b%5B2J",
    "((",
    "%28%28a+%29+%29+",
] + ["x" * 300, "%F0%9F%90%87", "", "0" * 5000]
OWN = ("fz-0", "fz-1", "fz-x0", "fz-vhost", "fz-user")
PARAMETERS = [
    "page", "page_size", "name", "use_regex", "sort", "sort_reverse", "columns", "lengths_age",
    "lengths_incr", "msg_rates_age", "msg_rates_incr", "data_rates_age", "data_rates_incr",
    "disable_stats", "enable_queue_totals", "vhost", "topics", "path", "since", "q", "limit", "names",
    "ids",
]  # fmt: skip
VALUES = [
    "1",
    "0",
    "-1",
    "2",
    "100",
    "500",
    "501",
    "99999999999999999999",
    "true",
    "false",
    "yes",
    "name",
    "messages",
    "arguments.x",
    "message_stats.publish",
    "name,messages",
    ".",
    "..",
    ",",
    "a.b.c.d",
    ".*",
    "^fz",
    "(",
    "[",
    "((a+)+)+$",
    "(?i)fz",
    "%00",
    "%ff",
    "é",
    "60",
    "5",
    "3600",
    "86400",
    "1.5",
    "1e9",
    "nan",
    "inf",
    "overview",
    "queues",
    "queue:%2F:fz-0",
    "{}",
    "[]",
] + ["", "a" * 900, "(" * 400, "x," * 500, "(?i)[" + "a-z" * 100 + "]"]
HEADERS = {
    "Accept": ("application/json", "*/*", "text/html", "text/event-stream", "image/png;q=0.1", "a" * 3000)
    + (";;;,,",),
    "Accept-Encoding": ("gzip", "identity", "br", "gzip;q=0", "*", ""),
    "Content-Type": ("application/json", "text/plain", "application/x-www-form-urlencoded")
    + ("multipart/form-data", "x"),
    "Connection": ("close", "keep-alive", "Upgrade", "keep-alive, close"),
    "Upgrade": ("websocket", "h2c"),
    "Expect": ("100-continue", "nope"),
    "If-None-Match": ('"x"', "*", "W/"),
    "If-Modified-Since": ("Sat, 01 Jan 2000 00:00:00 GMT", "nope"),
    "Range": ("bytes=0-1", "bytes=-1", "bytes=9-1", "bytes=0-0,2-3", "x"),
    "X-Vhost": ("/", "nope", "\xe9"),
    "Origin": ("http://evil.example", "null"),
    "Sec-Fetch-Site": ("same-origin", "cross-site"),
    "Last-Event-ID": ("1", "x", "9" * 40),
    "X-Forwarded-For": ("1.2.3.4", "x" * 500),
    "Content-Encoding": ("gzip", "deflate", "x"),
    "Cookie": ("@COOKIE@", "a=b; c", "=", "x" * 3000, '"\\'),
    "Host": ("localhost", "evil.example", "", "[::1", "x:99999"),
    "Transfer-Encoding": ("chunked", "gzip, chunked", "identity", "x"),
    "Content-Length": ("0", "5", "-1", "99999999999", "abc", "1, 1"),
}  # fmt: skip


def authorization(random: Random) -> str:
    right = "Basic " + base64.b64encode(b"guest:guest").decode()
    if random.random() < 0.9:
        return right
    return random.choice(
        (
            "Basic",
            "Basic x",
            "Bearer x",
            "Basic " + base64.b64encode(b"\xff\xfe:x").decode(),
            "Basic \xe9\xff",
            "Basic " + base64.b64encode(b"guest").decode(),
            "basic " + right[6:],
            "Basic " + "A" * 4000,
            right + "=",
            "Digest username=guest",
            "",
        )
    )


def path(random: Random, names: tuple[str, ...] | list[str]) -> str:
    found = re.sub(r"\{(?:[^{}]|\{[^}]*\})*\}", lambda _: random.choice(names), random.choice(PATHS))
    if random.random() < 0.05:
        found += random.choice(("/", "//", "/..", "%", "%zz", "#x", "\\", "/" * 200))
    if random.random() < 0.5:
        pairs = [
            f"{random.choice(PARAMETERS)}={random.choice(VALUES).encode().decode('latin-1')}"
            for _ in range(random.choice((1, 1, 2, 3, 5, 40)))
        ]
        found += "?" + random.choice(("&", "&", "&", ";", "&&")).join(pairs)
    return found


def json_value(random: Random, depth: int = 0) -> Any:
    match random.randrange(9 if depth < 3 else 6):
        case 0:
            return random.choice((None, True, False))
        case 1:
            return random.choice((0, -1, 1.5, 2**31, 2**64, 1e308))
        case 2 | 3 | 4:
            return random.choice(("", "guest", "fz-0", "/", "x" * 500, "\ud800", "\0", "\u00e9"))
        case 5 | 6:
            return [json_value(random, depth + 1) for _ in range(random.randrange(4))]
        case _:
            keys = ("username", "password", "names", "queues", "vhost", "name", "x", "topic", "tags")
            return {random.choice(keys): json_value(random, depth + 1) for _ in range(random.randrange(4))}


def body(random: Random) -> bytes:
    roll = random.random()
    if roll < 0.2:
        return json.dumps(
            {"username": "guest", "password": random.choice(("guest", "no", "x" * 2000))}
        ).encode()
    if roll < 0.6:
        return json.dumps(json_value(random)).encode()
    if roll < 0.7:
        return random.choice(
            (b"[" * 5000, b'{"a":' * 3000, b"username=guest&password=guest", b"\xff\xfe", b"1e999999")
        )
    if roll < 0.75:
        return bytes(random.choice((70_000, 300_000)))
    return mutated(random, json.dumps(json_value(random)).encode())


def chunked(random: Random, data: bytes) -> bytes:
    """Chunks, sometimes wrong ones."""
    out = b""
    step = random.choice((1, 7, 100, 5000))
    for at in range(0, min(len(data), 200 * step), step):
        piece = data[at : at + step]
        size = b"%x" % len(piece)
        if random.random() < 0.03:
            size = random.choice((b"-1", b"zz", b"f" * 20, b"%x" % (len(piece) + 1), b"", b"0x1"))
        if random.random() < 0.05:
            size += random.choice((b";a=b", b" ", b";" + b"x" * 5000))
        out += size + b"\r\n" + piece + (b"\r\n" if random.random() < 0.98 else b"\n")
    return out + random.choice(
        (b"0\r\n\r\n", b"0\r\n\r\n", b"0\r\n\r\n", b"0\r\nA: b\r\n\r\n", b"0\r\n", b"")
    )


def request(random: Random) -> bytes:
    """One request."""
    writes = random.random() < 0.15
    verb = random.choice(WRITES if writes else READS)
    target = path(random, OWN if writes else NAMES)
    headers: list[tuple[str, str]] = [("Host", "localhost")] if random.random() < 0.97 else []
    if random.random() < 0.9:
        headers.append(("Authorization", authorization(random)))
    for _ in range(random.choice((0, 0, 1, 2, 4))):
        name = random.choice(list(HEADERS))
        if name in ("Content-Length", "Transfer-Encoding", "Host") and random.random() < 0.7:
            continue
        headers.append((name, random.choice(HEADERS[name])))
    if random.random() < 0.02:
        headers += [(f"X-{number}", "y" * 50) for number in range(random.choice((50, 300)))]
    if random.random() < 0.02:
        headers.append(
            random.choice((("X y", "z"), ("", "z"), ("X", "a\x00b"), ("X\xe9", "\xff"), ("X", "a\rb")))
        )
    data = b""
    if writes or random.random() < 0.1:
        data = body(random)
        if random.random() < 0.3:
            headers.append(("Transfer-Encoding", "chunked"))
            data = chunked(random, data)
        else:
            headers.append(("Content-Length", str(len(data) + random.choice((0,) * 20 + (1, -1, 1000)))))
    version = (
        "HTTP/1.1" if random.random() < 0.97 else random.choice(("HTTP/1.0", "HTTP/2.0", "HTTP/9.9", "", "x"))
    )
    line = f"{verb} {target} {version}\r\n".encode("latin-1", "replace")
    return (
        line + b"".join(f"{name}: {value}\r\n".encode("latin-1") for name, value in headers) + b"\r\n" + data
    )


def connection(random: Random, number: int) -> Case:
    requests = [request(random) for _ in range(random.choice((1, 1, 2, 5, 20)))]
    roll = random.random()
    if roll < 0.1:
        requests = [mutated(random, b"".join(requests), 6)]
    elif roll < 0.12:
        requests = [random.randbytes(random.choice((10, 1000, 9000)))]
    steps: Case = [[number, "http"]]
    deaf = random.random() < 0.08
    if deaf:
        steps.append([number, "deaf"])
        requests *= random.choice((1, 5, 20))
    data = b"".join(requests)
    if random.random() < 0.5:
        pieces = requests
    else:
        cuts = sorted(random.randrange(len(data) + 1) for _ in range(random.choice((0, 1, 5))))
        pieces = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    for piece in pieces:
        if piece:
            steps.append([number, "write", piece.decode("latin-1")])
        steps.append([number, "wait", random.choice((1, 5, 5, 20))])
    steps.append([number, random.choice(("close", "close", "reset", "end"))])
    return steps


def make(random: Random) -> Case:
    """One to three connections, mixed."""
    left = [connection(random, number) for number in range(random.choice((1, 1, 1, 2, 3)))]
    case: Case = []
    while left:
        steps = random.choice(left)
        case.append(steps.pop(0))
        left = [steps for steps in left if steps]
    return case


class Http:
    """Beside the honest AMQP client there is an honest HTTP client, which asks after every case."""

    name = "http"

    def __init__(self) -> None:
        self.watched = Watched(("--log-level", "warning"))
        self.cookie = b""

    def make(self, random: Random) -> Case:
        return make(random)

    def run(self, case: Case) -> str:
        broker = self.watched.broker
        assert broker is not None
        ports = {"http": broker.admin_port}
        found = play(case, ports, lambda octets: octets.replace(b"@COOKIE@", self.cookie))
        return self.watched.look_for(found) if found else self._honest() or self.watched.look()

    def _honest(self) -> str:
        """A right request is answered, whatever others do."""
        broker = self.watched.broker
        assert broker is not None
        client = http.client.HTTPConnection("127.0.0.1", broker.admin_port, timeout=30)
        try:
            client.request("GET", "/api/queues/%2F/honest", headers={"Authorization": RIGHT})
            answer = client.getresponse()
            text = answer.read()
            if answer.status != 200 or json.loads(text)["name"] != "honest":
                return f"the honest client's request was answered by {answer.status} {text[:300]!r}"
        except (OSError, http.client.HTTPException, ValueError) as error:
            return f"the honest client's request failed: {error!r}"
        finally:
            client.close()
        return ""

    def facts(self) -> str:
        return self.watched.facts()

    def checkpoint(self) -> str:
        problem = self.watched.restart()
        if not problem:
            self._log_in()
        return problem

    def fresh(self) -> None:
        self.watched.fresh()
        self._furnish()
        self._log_in()

    def _furnish(self) -> None:
        """Things to show: queues with messages, bindings, exchanges, a user's connection with consumers."""
        broker = self.watched.broker
        assert broker is not None
        with Wire(broker.port) as wire:
            wire.open_channel(1)
            wire.ok(1, "exchange.declare", exchange="fz-x0", type="topic", durable=True)
            for number in range(20):
                wire.ok(1, "queue.declare", queue=f"fz-{number}", durable=number % 2 == 0)
                wire.ok(1, "queue.bind", queue=f"fz-{number}", exchange="fz-x0", routing_key=f"a.{number}.#")
                wire.publish(1, "", f"fz-{number}", b"x", delivery_mode=2)
            wire.ok(1, "queue.declare", queue="evil\x1b[2J<script>", durable=True)
            wire.ok(1, "exchange.declare", exchange="a/b", type="headers")

    def _log_in(self) -> None:
        broker = self.watched.broker
        assert broker is not None
        client = http.client.HTTPConnection("127.0.0.1", broker.admin_port, timeout=30)
        text = json.dumps({"username": "guest", "password": "guest"})
        client.request("POST", "/admin/v1/session", text, {"Content-Type": "application/json"})
        cookie = client.getresponse().headers.get("Set-Cookie", "")
        self.cookie = cookie.partition(";")[0].encode()
        client.close()

    def close(self) -> None:
        self.watched.close()


RIGHT = "Basic " + base64.b64encode(b"guest:guest").decode()

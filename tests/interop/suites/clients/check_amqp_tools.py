"""Debian's amqp-tools: programs around librabbitmq, the C client."""

from __future__ import annotations

import subprocess
import time

from checks import HOST, LARGE, PORT, check, fresh, main

URL = f"amqp://guest:guest@{HOST}:{PORT}/%2f"


def tool(name: str, *arguments: str, url: str = URL, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [f"amqp-{name}", "-u", url, *arguments]
    return subprocess.run(command, input=data, capture_output=True, timeout=20, check=False)


def output(name: str, *arguments: str, data: bytes = b"") -> bytes:
    done = tool(name, *arguments, data=data)
    assert done.returncode == 0, done.stderr
    return done.stdout


@check
def publishes_gets_and_consumes() -> None:
    queue = fresh()
    assert output("declare-queue", "-q", queue, "-d").strip() == queue.encode()
    output("publish", "-r", queue, "-p", "-C", "text/plain", "-b", "hello")
    assert output("get", "-q", queue) == b"hello"
    assert tool("get", "-q", queue).returncode == 2, "an empty queue is exit code 2"
    output("publish", "-r", queue, data=LARGE)
    assert output("get", "-q", queue) == LARGE
    output("publish", "-r", queue, "-l", data=b"a\nb\nc\n")
    assert output("consume", "-q", queue, "-c", "3", "-p", "1", "cat") == b"a\nb\nc\n"
    assert output("delete-queue", "-q", queue) == b"0\n"


@check
def consumes_from_an_exchange() -> None:
    key = fresh("key")
    command = ["amqp-consume", "-u", URL, "-e", "amq.topic", "-r", f"*.{key}.#", "-c", "1", "cat"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as consumer:
        while consumer.poll() is None:  # it does not say when its queue is bound
            output("publish", "-e", "amq.topic", "-r", f"x.{key}.y", "-b", "routed")
            time.sleep(0.2)
        assert consumer.stdout.read() == b"routed"


@check
def errors_are_told() -> None:
    name = fresh()
    assert f"NOT_FOUND - no queue '{name}' in vhost '/'".encode() in tool("get", "-q", name).stderr
    wrong = tool("get", "-q", name, url=f"amqp://guest:wrong@{HOST}:{PORT}/")
    assert b"ACCESS_REFUSED" in wrong.stderr, wrong.stderr
    nowhere = tool("get", "-q", name, url=f"amqp://guest:guest@{HOST}:{PORT}/nope")
    assert b"NOT_ALLOWED - vhost nope not found" in nowhere.stderr, nowhere.stderr


main()

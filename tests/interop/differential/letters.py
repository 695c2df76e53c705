"""The order of RabbitMQ's dead letters of two queues: ``python -m tests.interop.differential.letters``.

One publish to a fanout exchange goes to two queues of one message each. Both were full, and both give their
old message to the same third queue. Counted is which of the two letters comes first: ``a`` is the queue that
was bound first. ``--durable a`` makes the message of that queue one that is on disk.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from pathlib import Path

from tests.brokers import RabbitProcess, RouterProcess
from tests.interop.wire import Wire


def count(port: int, durable: str, times: int) -> Counter[str]:
    """How often which queue's letter was first, with a persistent message."""
    found: Counter[str] = Counter()
    with Wire(port) as wire:
        wire.open_channel(1, confirm=True)
        arguments = {"x-max-length": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "letters"}
        wire.ok(1, "queue.declare", queue="letters")
        for name in "ab":
            wire.ok(1, "queue.declare", queue=name, durable=name in durable, arguments=arguments)
            wire.ok(1, "queue.bind", queue=name, exchange="amq.fanout")
        for number in range(times + 1):
            wire.publish(1, "amq.fanout", "", str(number), delivery_mode=2)
            assert wire.receive().name == "basic.ack"
            if number:
                first = None
                while first is None:
                    first = wire.get("letters")
                while wire.get("letters") is None:
                    pass
                found[first.properties["headers"]["x-death"][0]["queue"]] += 1
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=2000)
    parser.add_argument("--durable", default="", help="which of the queues a and b are durable: a, b or ab")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="letters-") as directory:
        for broker in (RouterProcess(Path(directory, "router")), RabbitProcess(Path(directory, "rabbitmq"))):
            broker.start()
            try:
                found = count(broker.port, arguments.durable, arguments.times)
            finally:
                broker.stop()
            print(f"{broker.name}: first came the letter of a {found['a']} times, of b {found['b']} times")


if __name__ == "__main__":
    main()

"""``make chaos``: kill -9 at random moments under confirmed load, again and again on the same data.

What must hold: every persistent message that was confirmed comes out of every queue that it was routed to,
again and again until it is acknowledged; what was acknowledged durably does not come back; whatever comes out
a second time says so (redelivered); a connection sees each publisher's messages in order.

``--everything`` does so while all features that decide about messages are in use: times to live, priorities,
delivery limits, full queues, dead letters in chains and cycles, quorum queues, single active consumers,
delayed messages, transactions, alternate exchanges, hashes (`tests/faults/everything.py`).

The page cache outlives a killed process, so this proves the logic of log and recovery; that a confirm waits
for the disk is proven by ``test_sync_order.py``.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.brokers import Broker, RabbitProcess, RouterProcess
from tests.faults.everything import Everything
from tests.faults.load import Account, Consumer, Publisher, Worker
from tests.interop.wire import Wire

#: One queue is reached through the default exchange, two through a fanout; the last is seldom consumed.
QUEUES = ("chaos-0", "chaos-1", "chaos-2")
FANOUT = "chaos"


class Chaos:
    """Rounds of load and kill on one broker; ``report`` says what came of it."""

    def __init__(
        self, broker: Broker, seed: int, tell: Callable[[str], None], *, politely: bool = False
    ) -> None:
        self.broker = broker
        self.politely = politely
        self.random = random.Random(seed)
        self.tell = tell
        self.accounts = {queue: Account() for queue in QUEUES}
        self.publishers = [
            Publisher(0, "", "chaos-0", [self.accounts["chaos-0"]], seed + 1),
            Publisher(1, FANOUT, "any", [self.accounts["chaos-1"], self.accounts["chaos-2"]], seed + 2),
            Publisher(2, "", "chaos-0", [self.accounts["chaos-0"]], seed + 3, window=1),
        ]
        self.starts: list[float] = []
        self.kills = 0

    def declare(self) -> None:
        with Wire(self.broker.port) as wire:
            wire.open_channel(1)
            wire.ok(1, "exchange.declare", exchange=FANOUT, type="fanout", durable=True)
            for queue in QUEUES:
                wire.ok(1, "queue.declare", queue=queue, durable=True)
            for queue in QUEUES[1:]:
                wire.ok(1, "queue.bind", queue=queue, exchange=FANOUT)

    def start(self) -> None:
        started = time.monotonic()
        self.broker.start()
        self.starts.append(time.monotonic() - started)

    def round(self, number: int) -> None:
        """Load for a while, kill; one time in five the next start is killed as well, somewhere on its way."""
        queues = QUEUES if number % 3 == 0 else QUEUES[:2]
        workers = [Worker(self.broker.port, publisher.work) for publisher in self.publishers]
        ack_every, hold = (10, 0) if number % 2 else (1, 20)
        for queue in queues:
            consumer = Consumer(queue, self.accounts[queue], ack_every=ack_every, hold=hold, mark_every=50)
            workers.append(Worker(self.broker.port, consumer.work))
        for worker in workers:
            worker.start()
        time.sleep(self.random.uniform(0.05, 1.5))
        self.kill()
        for worker in workers:
            worker.bereft.set()
        for worker in workers:
            worker.finish()
        if isinstance(self.broker, RouterProcess) and not self.politely and self.random.random() < 0.2:
            self.broker.launch()
            time.sleep(self.random.uniform(0, 0.8))
            self.kill()
        self.start()
        self.tell(f"round {number:3}: {self.summary()}; started in {self.starts[-1]:.2f} s")

    def kill(self) -> None:
        if self.politely:
            code = self.broker.stop()
            assert code == 0, f"exit code {code}:\n{self.broker.log()[-4000:]}"
        else:
            self.broker.kill9()
        self.kills += 1

    def drain(self) -> None:
        """Take all that is left."""
        consumers = [Consumer(queue, self.accounts[queue], ack_every=100, prefetch=1000) for queue in QUEUES]
        workers = [Worker(self.broker.port, consumer.work) for consumer in consumers]
        for worker in workers:
            worker.start()
        left = 1
        with Wire(self.broker.port) as wire:
            wire.open_channel(1)
            while left or any(time.monotonic() - consumer.last_delivery < 1 for consumer in consumers):
                time.sleep(0.2)
                left = sum(wire.ready(queue) for queue in QUEUES)
                if any(not worker.is_alive() for worker in workers):
                    break
        for worker in workers:
            worker.finish()
        assert left == 0, "the broker stopped delivering"

    def summary(self) -> str:
        published = sum(publisher.published for publisher in self.publishers)
        confirmed = sum(publisher.confirmed for publisher in self.publishers)
        return f"{published} published, {confirmed} confirmed"

    @property
    def lost(self) -> int:
        return sum(len(account.lost) for account in self.accounts.values())

    @property
    def returned(self) -> int:
        return sum(len(account.returned) for account in self.accounts.values())

    @property
    def unflagged(self) -> int:
        return sum(len(account.unflagged) for account in self.accounts.values())

    @property
    def disordered(self) -> int:
        return sum(len(account.disordered) for account in self.accounts.values())

    def report(self) -> str:
        accounts = self.accounts.values()
        return "\n".join(
            [
                f"{self.kills} times {'SIGTERM' if self.politely else 'kill -9'}; {self.summary()},"
                f" {sum(publisher.unknown for publisher in self.publishers)} unanswered at a kill,"
                f" {sum(publisher.nacked for publisher in self.publishers)} refused",
                f"{sum(len(account.must) for account in accounts)} copies had to survive;"
                f" {sum(account.deliveries for account in accounts)} deliveries,"
                f" {sum(account.redelivered for account in accounts)} of them redelivered",
                f"start to serving: median {statistics.median(self.starts):.2f} s,"
                f" longest {max(self.starts):.2f} s",
                f"{self.lost} confirmed lost, {sum(len(account.settled) for account in accounts)} settled for"
                f" good, {self.returned} of them back again,",
                f"{self.unflagged} duplicates without the redelivered flag, {self.disordered} out of order",
            ]
        )

    def run(self, rounds: int) -> bool:
        """All rounds and the drain; True if nothing is wrong."""
        self.start()
        self.declare()
        for number in range(1, rounds + 1):
            self.round(number)
        self.drain()
        return not (self.lost or self.returned or self.unflagged or self.disordered)


def say(line: str) -> None:
    print(line, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--politely", action="store_true", help="SIGTERM instead of kill -9")
    parser.add_argument(
        "--everything",
        action="store_true",
        help="all features that decide about messages in use at once, each message accounted for",
    )
    parser.add_argument("--rabbitmq", action="store_true", help="kill Debian's RabbitMQ instead, to compare")
    parser.add_argument("--uncompiled", action="store_true", help="run the broker from source")
    args = parser.parse_args()
    print(f"seed {args.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="chaos-") as directory:
        broker: Broker = (
            RabbitProcess(Path(directory))
            if args.rabbitmq
            else RouterProcess(Path(directory), uncompiled=args.uncompiled)
        )
        chaos = (
            Everything(broker, args.seed, say)
            if args.everything
            else Chaos(broker, args.seed, say, politely=args.politely)
        )
        try:
            ok = chaos.run(args.rounds)
        except BaseException:
            print(broker.log()[-4000:], file=sys.stderr)
            raise
        finally:
            broker.stop()
    print(chaos.report())
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())

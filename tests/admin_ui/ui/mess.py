"""A broker as operators find it: four virtual hosts, many healthy clients, two that hold what they got."""

from __future__ import annotations

import base64
import json
import threading
import urllib.request
from typing import Any

import pika

from tests.admin_ui.ui.site import Site

VHOSTS = ("/", "billing", "shop", "staging")
#: Queues of each virtual host, and how many consumers each has.
QUEUES = {
    "orders": 3,
    "invoices.eu": 2,
    "invoices.us": 2,
    "audit": 1,
    "images.thumbnails": 2,
    "search.index": 1,
}
#: Queues that nobody consumes, with their messages.
BACKLOGS = {
    "/": {"dead-letters": 340, "reports.nightly": 25},
    "staging": {"load-test": 5000, "old.orders": 60},
}
#: The clients that hold what they got, so many messages, and their queues in the virtual host shop. There is
#: one for each test that closes one: a queue is called stuck only after a minute.
STUCK, HELD = {"emails": "mailer-slow", "labels": "printer-slow"}, 150
TICK_S = 0.2


class Mess:
    """Runs from ``start`` to ``stop``."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._stuck: list[pika.BlockingConnection] = []

    def start(self) -> None:
        """Declare everything, and begin."""
        for vhost in VHOSTS[1:]:
            self.api("PUT", f"vhosts/{vhost}", {})
        for vhost in VHOSTS:
            with self._connect(vhost, "deploy") as connection:
                channel = connection.channel()
                channel.exchange_declare("events", "topic", durable=True)
                for queue in [*QUEUES, *BACKLOGS.get(vhost, {}), *(STUCK if vhost == "shop" else [])]:
                    channel.queue_declare(queue, durable=True)
                    channel.queue_bind(queue, "events", queue)
                for queue, count in BACKLOGS.get(vhost, {}).items():
                    for number in range(count):
                        channel.basic_publish("", queue, b'{"order": %d}' % number)
        self._get_stuck()
        self._threads = [threading.Thread(target=self._work, args=(vhost,), daemon=True) for vhost in VHOSTS]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End all of it."""
        self._stop.set()
        for thread in self._threads:
            thread.join(10)
        for connection in self._stuck:
            if connection.is_open:
                connection.close()

    def api(self, method: str, path: str, body: Any = None) -> Any:
        """A call of the HTTP API as guest."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.site.base}/api/{path}", data, method=method)
        request.add_header("Authorization", "Basic " + base64.b64encode(b"guest:guest").decode())
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request) as reply:
            text = reply.read()
        return json.loads(text) if text else None

    def _connect(self, vhost: str, name: str) -> pika.BlockingConnection:
        return pika.BlockingConnection(
            pika.ConnectionParameters(
                "127.0.0.1",
                self.site.broker.port,
                virtual_host=vhost,
                heartbeat=0,
                client_properties={
                    "connection_name": name,
                    "capabilities": {"consumer_cancel_notify": True},
                },
            )
        )

    def _get_stuck(self) -> None:
        """Clients take their fill and acknowledge nothing; more waits behind that."""
        for queue, client in STUCK.items():
            connection = self._connect("shop", client)
            self._stuck.append(connection)
            channel = connection.channel()
            held: list[object] = []
            channel.basic_qos(prefetch_count=HELD)
            channel.basic_consume(queue, lambda *_, held=held: held.append(_), consumer_tag="holds")
            for number in range(HELD + 60):
                channel.basic_publish("", queue, b'{"number": %d}' % number)
            while len(held) < HELD:
                connection.process_data_events(0.1)

    def _work(self, vhost: str) -> None:
        """The healthy clients of a virtual host; each publishes to all and acknowledges what it gets."""
        connections = []
        for queue, count in QUEUES.items():
            for number in range(count):
                connection = self._connect(vhost, f"{queue.partition('.')[0]}-worker-{number + 1}")
                channel = connection.channel()
                channel.basic_qos(prefetch_count=20)
                channel.basic_consume(queue, lambda ch, method, *_: ch.basic_ack(method.delivery_tag))
                connections.append((connection, channel, queue))
        while not self._stop.wait(TICK_S):
            for connection, channel, queue in connections:
                channel.basic_publish("events", queue, b'{"order": 1}')
                connection.process_data_events(0)
        for connection, _, _ in connections:
            connection.close()

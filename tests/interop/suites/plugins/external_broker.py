"""For the suites of aiormq and aio-pika: the broker of this run instead of one in a container."""

from __future__ import annotations

import os
import types

import pytest
from yarl import URL

HOST = os.environ["INTEROP_HOST"]
PORT = int(os.environ["INTEROP_PORT"])
ADMIN_PORT = int(os.environ["INTEROP_ADMIN_PORT"])


@pytest.fixture(scope="session")
def rabbitmq_container() -> types.SimpleNamespace:
    """What the suites read of the container: its name and ports. The tests over TLS are left out."""
    ports = {"5672/tcp": PORT, "5671/tcp": 0, "15672/tcp": ADMIN_PORT, "15671/tcp": 0}
    return types.SimpleNamespace(id="external", host=HOST, ports=ports)


@pytest.fixture(scope="session")
def amqp_direct_url(rabbitmq_container: types.SimpleNamespace) -> URL:
    port = rabbitmq_container.ports["5672/tcp"]
    return URL.build(scheme="amqp", user="guest", password="guest", path="//", host=HOST, port=port)

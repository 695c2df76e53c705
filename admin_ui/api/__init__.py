"""The parts of the API, one module for each kind of object; ``ENDPOINTS`` has them all."""

from admin_ui.api import connections, exchanges, health, queues, users, whole
from admin_ui.endpoints import Endpoint

ENDPOINTS: list[Endpoint] = [
    *whole.ENDPOINTS,
    *users.ENDPOINTS,
    *exchanges.ENDPOINTS,
    *queues.ENDPOINTS,
    *connections.ENDPOINTS,
    *health.ENDPOINTS,
]

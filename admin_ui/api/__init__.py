"""The parts of the API, one module for each kind of object; ``ENDPOINTS`` has them all."""

from admin_ui.api import queues, whole
from admin_ui.endpoints import Endpoint

ENDPOINTS: list[Endpoint] = [*whole.ENDPOINTS, *queues.ENDPOINTS]

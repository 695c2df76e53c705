"""The endpoints of the API, one module for each kind of object.

``ENDPOINTS`` has all of them, ``OBJECTS`` those that our pages read under addresses of their own.
"""

from admin_ui.api import (
    bindings,
    connections,
    definitions,
    exchanges,
    health,
    limits,
    messages,
    parameters,
    policies,
    queues,
    topics,
    users,
    vhosts,
    whole,
)
from admin_ui.endpoints import Endpoint

ENDPOINTS: list[Endpoint] = [
    *whole.ENDPOINTS,
    *vhosts.ENDPOINTS,
    *users.ENDPOINTS,
    *definitions.ENDPOINTS,
    *parameters.ENDPOINTS,
    *limits.ENDPOINTS,
    *policies.ENDPOINTS,
    *topics.ENDPOINTS,
    *exchanges.ENDPOINTS,
    *queues.ENDPOINTS,
    *messages.ENDPOINTS,
    *bindings.ENDPOINTS,
    *connections.ENDPOINTS,
    *health.ENDPOINTS,
]

#: Single objects, whose names may have any characters; virtual hosts, which the API shows only to
#: administrators; and connections by the names that clients give them.
OBJECTS: list[Endpoint] = [
    Endpoint("/vhosts/{vhost}", vhosts.one),
    Endpoint("/connections", connections.every_by_client),
    Endpoint("/exchanges/{vhost}/{exchange}", exchanges.one),
    Endpoint("/exchanges/{vhost}/{exchange}/bindings/source", bindings.bindings_of_source),
    Endpoint("/exchanges/{vhost}/{exchange}/bindings/destination", bindings.bindings_of_destination),
    Endpoint("/queues/{vhost}/{queue}", queues.one),
    Endpoint("/queues/{vhost}/{queue}/bindings", bindings.bindings_of_queue),
]

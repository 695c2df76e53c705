"""The endpoints of the API, one module for each kind of object.

``ENDPOINTS`` has all of them, ``OBJECTS`` those that our pages use under addresses of their own.
"""

from admin_ui.api import (
    bindings,
    connections,
    definitions,
    exchanges,
    health,
    limits,
    login,
    messages,
    parameters,
    policies,
    queues,
    topics,
    users,
    vhosts,
    whole,
)
from admin_ui.auth import ADMINISTRATOR
from admin_ui.endpoints import Endpoint

ENDPOINTS: list[Endpoint] = [
    *whole.ENDPOINTS,
    *login.ENDPOINTS,
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

#: Endpoints where the pages get another answer than the API: virtual hosts, which the API shows only to
#: administrators, and connections and channels by the names that clients give them.
_OWN: list[Endpoint] = [
    Endpoint("/vhosts/{vhost}", vhosts.one, put=vhosts.put, delete=vhosts.delete, write_tags=ADMINISTRATOR),
    Endpoint("/connections", connections.every_by_client),
    Endpoint("/channels", connections.every_channel_by_client),
]
_OWN_PATHS = {endpoint.path for endpoint in _OWN}

#: Everything whose path has a name: names may have any characters, and a browser cannot send all of them in
#: the API's own paths (see ``endpoints.DOTS``).
OBJECTS: list[Endpoint] = [
    *_OWN,
    *[endpoint for endpoint in ENDPOINTS if "{" in endpoint.path and endpoint.path not in _OWN_PATHS],
]

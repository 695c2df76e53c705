"""Virtual hosts: exchanges, queues and the bindings between them."""

import amqp_router  # noqa: F401 - puts the rule for compiled modules in force

"""The commands ``amqp-router ctl``: look at a running broker and change it, over its HTTP API.

The verbs have the names of rabbitmqctl and, for what rabbitmqctl cannot do, names in its manner
(``declare_queue``). ``verbs`` has the table of all; ``client`` makes the calls.
"""

from amqp_router.ctl.command import add_commands

__all__ = ["add_commands"]

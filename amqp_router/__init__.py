"""AMQP 0-9-1 broker: command line, options, listeners and the node.

Imports nothing but the rule that chooses between a compiled module and its source, so that anyone may
use ``amqp_router.protocol`` alone.
"""

from amqp_router import compiled

compiled.install()

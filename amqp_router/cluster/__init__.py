"""How nodes agree: who is there, and who leads which queue.

``ports`` says what a node asks of a coordinator, ``standalone`` is the one of a node that is alone.
"""

from amqp_router.cluster.ports import NodeIdentity, QueueState, Registry
from amqp_router.cluster.standalone import StandaloneQueues, StandaloneRegistry, count_boot

__all__ = ["NodeIdentity", "QueueState", "Registry", "StandaloneQueues", "StandaloneRegistry", "count_boot"]

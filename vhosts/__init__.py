"""Virtual hosts: exchanges, queues and the bindings between them."""

from vhosts.ports import DefinitionsPort, QueueFactory
from vhosts.vhost import LoadError, VirtualHost

__all__ = ["DefinitionsPort", "LoadError", "QueueFactory", "VirtualHost"]

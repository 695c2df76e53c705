"""Virtual hosts: exchanges, queues and the bindings between them."""

from vhosts.following import LoadError
from vhosts.ports import DefinitionsPort, QueueFactory
from vhosts.vhost import VirtualHost

__all__ = ["DefinitionsPort", "LoadError", "QueueFactory", "VirtualHost"]

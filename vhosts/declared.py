"""What queues and exchanges have in common: both are declared by name, and a binding may lead to either.

Compiled: see ``declared.pxd``.
"""

from __future__ import annotations

from amqp_router.protocol.kept_table import Arguments
from vhosts.policies import Definition, Effective


class Declared:
    """A queue or an exchange, as it was declared."""

    __slots__ = (
        "arguments",
        "auto_delete",
        "definition_rev",
        "deleted",
        "durable",
        "internal",
        "name",
        "policy",
    )

    def __init__(self) -> None:
        self.name = ""
        self.durable = False
        #: It is deleted with its last consumer, or with its last binding as source.
        self.auto_delete = False
        #: Clients may not publish to such an exchange. Such a queue belongs to an exchange: clients may not
        #: touch it.
        self.internal = False
        #: Typed AMQP table as declared.
        self.arguments: Arguments = {}
        #: What applies of the policies.
        self.policy: Effective | None = None
        #: Revision of the definition it waits for; 0 once that is stored, or if nothing was.
        self.definition_rev = 0
        #: It is deleted. Bindings that still lead here lead nowhere.
        self.deleted = False

    def obey(self, definition: Definition) -> None:
        """Obey the ``definition`` of the policies that apply, besides the arguments."""

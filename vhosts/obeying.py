"""Lets the queues and exchanges of a virtual host obey its policies.

A queue or exchange obeys from the moment it is declared. When a policy changes, all of them are looked at
again, some in each turn of the event loop, the first ones at once.
"""

from __future__ import annotations

from vhosts.exchanges.exchange import End, Exchange
from vhosts.long_lists import unwatched
from vhosts.policies import NOTHING, Effective, Policy, PolicySet, effective
from vhosts.ports import InSlices
from vhosts.queues.settings import queue_type
from vhosts.topology import Topology

#: Patterns that are compared in one slice, some 0.5 to 1 ms; a queue or exchange that changes what it obeys
#: counts as eight. The first slice and one more may come in the same turn of the event loop.
SLICE = 200
CHANGE_UNITS = 8


class Obedience:
    """The policies of one virtual host."""

    def __init__(self, topology: Topology, in_slices: InSlices) -> None:
        self.policies = PolicySet()
        self.operator_policies = PolicySet()
        self._topology = topology
        self._in_slices = in_slices
        #: Queues and exchanges that may obey something else now.
        self._left: list[End] = []
        self._is_going_on = False
        topology.on_entered = self.entered

    def of(self, end: End) -> Effective:
        """The policies that apply to a queue or exchange."""
        return NOTHING if end.policy is None else end.policy

    def put(self, policies: PolicySet, policy: Policy) -> None:
        """Add or replace a policy in one of the two sets."""
        policies.put(policy)
        self._look_again()

    def remove(self, policies: PolicySet, name: str) -> None:
        """Remove a policy from one of the two sets; nothing happens if it is not there."""
        if name in policies.by_name:
            policies.remove(name)
            self._look_again()

    def entered(self, end: End) -> bool:
        """``end`` is declared, or what applies to it may have changed; True if it has."""
        if end.policy is None and not len(self.policies) and not len(self.operator_policies):
            return False
        found = self._find(end)
        if found == self.of(end):
            return False
        end.policy = found
        end.obey(found.definition)
        return True

    def _find(self, end: End) -> Effective:
        if isinstance(end, Exchange):
            return effective(self.policies.find("exchange", end.name), None)
        kind = queue_type(end.arguments)
        return effective(
            self.policies.find("queue", end.name, kind),
            self.operator_policies.find("queue", end.name, kind),
        )

    def _look_again(self) -> None:
        topology = self._topology
        # Empty when it is done with, so no cycle of references is left in it.
        self._left = unwatched([*topology.queues.values(), *topology.exchanges.values()])
        if not self._is_going_on and not self._next_slice():
            self._is_going_on = True
            self._in_slices(self._next_slice)

    def _next_slice(self) -> bool:
        cost = 1 + len(self.policies) + len(self.operator_policies)
        spent, is_route_changed = 0, False
        topology = self._topology
        if topology.feed.is_behind:
            return False
        while self._left and spent < SLICE:
            end = self._left.pop()
            spent += cost
            if not end.deleted and self.entered(end):
                spent += CHANGE_UNITS
                is_route_changed |= isinstance(end, Exchange)
                if topology.feed.on and not isinstance(end, Exchange):
                    topology.feed.policy(topology.name, end)
        if is_route_changed:  # by an alternate exchange
            topology.table.changed()
        self._is_going_on = bool(self._left) and self._is_going_on
        return not self._left

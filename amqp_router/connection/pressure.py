"""The memory alarm, set and cleared by the node's account of memory."""

from __future__ import annotations

from amqp_router.connection.alarms import Alarms
from persistence.memory import MemoryBudget

#: Hundredths of the account's limit at which the alarm is set, and below which it is cleared.
SET_PERCENT = 90
CLEAR_PERCENT = 80


class Pressure:
    """Sets and clears the alarm "memory" as ``budget`` fills and empties. Without a limit it is never set."""

    __slots__ = ("_alarms", "_budget", "_clear_at", "_is_on", "_set_at")

    def __init__(self, budget: MemoryBudget, alarms: Alarms) -> None:
        self._budget = budget
        self._alarms = alarms
        self._is_on = False
        self._set_at = budget.whole * SET_PERCENT // 100 or 1 << 62
        self._clear_at = budget.whole * CLEAR_PERCENT // 100

    def look(self) -> None:
        """Compare the account with the limits. This is called very often."""
        total = self._budget.total()
        if self._is_on:
            if total < self._clear_at:
                self._is_on = False
                self._alarms.clear("memory")
        elif total > self._set_at:
            self._is_on = True
            self._alarms.set("memory")

"""What became of a publish."""

from __future__ import annotations

from enum import IntFlag


class Outcome(IntFlag):
    """``WAITS`` comes alone or with ``UNROUTABLE``; the others come alone.

    A compiled ``Publisher.publish`` returns the number.
    """

    #: Every queue has it, and it is as safe as it will be.
    TAKEN = 0
    #: No queue got it.
    UNROUTABLE = 1
    #: A queue is full and has refused it. The other queues have it.
    REFUSED = 2
    #: A queue cannot store it for now, but the others have it; or its exchange is gone.
    FAILED = 4
    #: It is safe when logs or definitions are synced: ``Listener.run_done``.
    WAITS = 8
    #: It reaches its queues in later turns of the event loop: ``Listener.published``.
    LATER = 16

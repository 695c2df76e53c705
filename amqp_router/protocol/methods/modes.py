"""The methods of the classes confirm (85) and tx (90), which change how a channel publishes.

Source: AMQP 0-9-1, class tx; RabbitMQ, "Protocol Extensions" (confirm).
"""

from __future__ import annotations

from amqp_router.protocol.methods.method import Method, method


@method(85, 10, "confirm.select", "bit")
class ConfirmSelect(Method):
    """RabbitMQ's extension."""

    nowait: bool = False


@method(85, 11, "confirm.select-ok")
class ConfirmSelectOk(Method):
    pass


@method(90, 10, "tx.select")
class TxSelect(Method):
    pass


@method(90, 11, "tx.select-ok")
class TxSelectOk(Method):
    pass


@method(90, 20, "tx.commit")
class TxCommit(Method):
    pass


@method(90, 21, "tx.commit-ok")
class TxCommitOk(Method):
    pass


@method(90, 30, "tx.rollback")
class TxRollback(Method):
    pass


@method(90, 31, "tx.rollback-ok")
class TxRollbackOk(Method):
    pass

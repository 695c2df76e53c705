"""The methods of class tx; ``transactions`` does the work.

Source: AMQP 0-9-1, class tx.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from amqp_router.channel.confirms import Confirms
from amqp_router.channel.transactions import TransactedChannel, Transaction
from amqp_router.protocol import methods
from amqp_router.protocol.errors import PreconditionFailed
from amqp_router.protocol.methods import Method


class TxChannel(TransactedChannel, Protocol):
    """The part of a channel that these methods use."""

    transaction: Transaction | None

    @property
    def confirms(self) -> Confirms | None:
        """None unless the channel confirms publishes."""

    def reply_after_slices(self, method: Method) -> None:
        """Send ``method`` after the work in slices that is under way."""


def _select(channel: TxChannel, method: Method) -> None:
    if channel.confirms is not None:
        raise PreconditionFailed("cannot switch from confirm to tx mode")
    if channel.transaction is None:
        channel.transaction = channel.publishing.transaction = Transaction(channel)
    channel.reply(methods.TxSelectOk(), 0)


def _commit(channel: TxChannel, method: Method) -> None:
    _transaction_of(channel).commit()


def _rollback(channel: TxChannel, method: Method) -> None:
    _transaction_of(channel).drop()
    channel.reply_after_slices(methods.TxRollbackOk())


def _transaction_of(channel: TxChannel) -> Transaction:
    if channel.transaction is None:
        raise PreconditionFailed("channel is not transactional")
    return channel.transaction


METHODS: dict[type[Method], Callable[[TxChannel, Method], None]] = {
    methods.TxSelect: _select,
    methods.TxCommit: _commit,
    methods.TxRollback: _rollback,
}

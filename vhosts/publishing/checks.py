"""The checks of a message's properties when a client publishes it.

Source: RabbitMQ, "Validated User-ID", "Direct Reply-to" and "Time-To-Live"; the texts are RabbitMQ's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from amqp_router.protocol.errors import PreconditionFailed
from amqp_router.protocol.frames import EXPIRY_MS_MAX

#: The pseudo-queue of direct reply-to.
DIRECT_REPLY = "amq.rabbitmq.reply-to"
_INTEGER = re.compile("[+-]?[0-9]+")


def check_properties(properties: Mapping[str, object], user: str, *, has_replies: bool = False) -> None:
    """Check the decoded ``properties`` of a message that ``user`` publishes.

    ``has_replies``: the publisher consumes the pseudo-queue of direct reply-to.

    Raises:
        PreconditionFailed: one of them is refused (406).
    """
    # In RabbitMQ's order.
    if not has_replies and properties.get("reply_to") == DIRECT_REPLY:
        raise PreconditionFailed("fast reply consumer does not exist")
    user_id = properties.get("user_id")
    if user_id is not None and user_id != user:
        raise PreconditionFailed(f"user_id property set to '{user_id}' but authenticated user was '{user}'")
    expiration = properties.get("expiration")
    if expiration is not None:
        expiration_ms(str(expiration))


def check_delivery_mode(properties: Mapping[str, object]) -> None:
    """Check that a delivery mode is 1 or 2, if there is one.

    Raises:
        PreconditionFailed: it is neither (406).
    """
    mode = properties.get("delivery_mode", 1)
    if mode not in (1, 2):
        raise PreconditionFailed(f"invalid message: {{delivery_mode_unknown,{mode}}}")


def expiration_ms(expiration: str) -> int:
    """The time to live in the property ``expiration``.

    Raises:
        PreconditionFailed: it is no number of ms, or too large (406).
    """
    number = _INTEGER.match(expiration)
    if number is None:
        raise PreconditionFailed(f"invalid expiration '{expiration}': no_integer")
    rest = expiration[number.end() :]
    if rest:
        raise PreconditionFailed(f"invalid expiration '{expiration}': {{leftover_string,\"{rest}\"}}")
    ms = int(number[0])
    if ms < 0:
        raise PreconditionFailed(f"invalid expiration '{expiration}': {{value_negative,{ms}}}")
    if ms > EXPIRY_MS_MAX:
        raise PreconditionFailed(f"invalid expiration '{expiration}': {{value_too_large,{ms}}}")
    return ms

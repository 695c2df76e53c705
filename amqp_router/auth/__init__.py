"""Who may log in, and what each user may do.

``mechanisms`` read names and passwords, ``backends`` decide on them, ``guard`` and ``throttle`` slow down who
guesses, ``users`` is the broker's own directory with ``passwords`` as RabbitMQ hashes them, ``permissions``
gives the verdict on a single operation.
"""

from amqp_router.auth.attempts import AMQP, HTTP, Attempts, Count
from amqp_router.auth.backends import (
    BACKENDS,
    Authenticator,
    AuthOptions,
    Backend,
    LoginFailed,
    LoopbackOnly,
    User,
    register_backend,
)
from amqp_router.auth.guard import Guard
from amqp_router.auth.mechanisms import MECHANISMS, Credentials, Mechanism, register_mechanism
from amqp_router.auth.permissions import Action, Kind, Permissions, compile_permission
from amqp_router.auth.throttle import Throttle, TooManyFailures
from amqp_router.auth.users import DEFAULT_USER, Users, first_definitions

__all__ = [
    "AMQP",
    "BACKENDS",
    "DEFAULT_USER",
    "HTTP",
    "MECHANISMS",
    "Action",
    "Attempts",
    "AuthOptions",
    "Authenticator",
    "Backend",
    "Count",
    "Credentials",
    "Guard",
    "Kind",
    "LoginFailed",
    "LoopbackOnly",
    "Mechanism",
    "Permissions",
    "Throttle",
    "TooManyFailures",
    "User",
    "Users",
    "compile_permission",
    "first_definitions",
    "register_backend",
    "register_mechanism",
]

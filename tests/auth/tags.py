"""A user with other tags and the same password, as the HTTP API and ``ctl set_user_tags`` make one."""

from __future__ import annotations

from collections.abc import Iterable

from amqp_router.auth.users import Users


def give_tags(users: Users, name: str, tags: Iterable[str]) -> int:
    """Put the user again, with these tags; the result is the revision."""
    row = users.users[name]
    return users.put_user_hash(name, row.password_hash, row.hashing_algorithm, tags)

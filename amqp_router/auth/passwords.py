"""Password hashes as RabbitMQ writes them, so that users move between brokers with their passwords.

A hash is the base64 text of a salt of 4 bytes, followed by the digest of salt and password.

Source: RabbitMQ's definitions file, ``password_hash`` and ``hashing_algorithm``.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Callable
from functools import partial

SALT_SIZE = 4

#: The algorithm for new hashes.
DEFAULT_ALGORITHM = "rabbit_password_hashing_sha256"

#: Digests by RabbitMQ's names; all of them can be verified.
ALGORITHMS: dict[str, Callable[[bytes], hashlib._Hash]] = {
    "rabbit_password_hashing_sha256": hashlib.sha256,
    "rabbit_password_hashing_sha512": hashlib.sha512,
    # Old users have it; where the system forbids MD5, this use of it is declared as no protection.
    "rabbit_password_hashing_md5": partial(hashlib.md5, usedforsecurity=False),
}


def hash_password(password: bytes, salt: bytes, algorithm: str = DEFAULT_ALGORITHM) -> str:
    """Hash ``password`` with a salt of ``SALT_SIZE`` random bytes.

    Raises:
        ValueError: the algorithm is unknown.
    """
    return b64encode(salt + _digest(salt + password, algorithm)).decode("ascii")


def verify_password(password: bytes, password_hash: str, algorithm: str) -> bool:
    """Whether ``password`` belongs to the hash. Nothing belongs to an empty or malformed one."""
    try:
        salt, digest = _split(password_hash, algorithm)
    except ValueError:
        return False
    return hmac.compare_digest(digest, _digest(salt + password, algorithm))


def check_hash(password_hash: str, algorithm: str) -> None:
    """Refuse what no password could be verified against; an empty hash is a user without a password.

    Raises:
        ValueError: unknown algorithm, not base64, or of the wrong length.
    """
    if algorithm not in ALGORITHMS:
        raise ValueError(f"unknown hashing algorithm {algorithm!r}")
    if password_hash:
        _split(password_hash, algorithm)


def _split(password_hash: str, algorithm: str) -> tuple[bytes, bytes]:
    try:
        data = b64decode(password_hash, validate=True)
    except binascii.Error as error:
        raise ValueError(f"password hash is not base64: {error}") from None
    size = SALT_SIZE + len(_digest(b"", algorithm))
    if len(data) != size:
        raise ValueError(f"password hash has {len(data)} bytes, {algorithm} has {size}")
    return data[:SALT_SIZE], data[SALT_SIZE:]


def _digest(data: bytes, algorithm: str) -> bytes:
    try:
        make = ALGORITHMS[algorithm]
    except KeyError:
        raise ValueError(f"unknown hashing algorithm {algorithm!r}") from None
    return make(data).digest()

"""Password hashes, as RabbitMQ writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_router.auth.passwords import (
    ALGORITHMS,
    DEFAULT_ALGORITHM,
    check_hash,
    hash_password,
    verify_password,
)

MD5, SHA256, SHA512 = (f"rabbit_password_hashing_{each}" for each in ("md5", "sha256", "sha512"))


@pytest.mark.parametrize(
    ("password", "password_hash", "algorithm"),
    [
        # the worked example of RabbitMQ's documentation (Credentials and Passwords)
        (b"test12", "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR", SHA256),
        # RabbitMQ's mailing list, May 2011, from when MD5 was the only algorithm
        (b"simon", "ytUIm8s3AnKsXQjptplKFytfVxI=", MD5),
        # exported by a RabbitMQ 3.6 server, quoted in a public question
        (b"1", "y4xPTRVfzXg68sz9ALqeQzARam3CwnGo53xS752cDV5+Utzh", SHA256),
    ],
)
def test_hashes_that_rabbitmq_made(password: bytes, password_hash: str, algorithm: str) -> None:
    assert verify_password(password, password_hash, algorithm)
    assert not verify_password(password + b"x", password_hash, algorithm)


def test_the_same_salt_gives_rabbitmqs_hash() -> None:
    salt = bytes.fromhex("908DC60A")
    assert hash_password(b"test12", salt) == "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"


@given(st.binary(), st.binary(min_size=4, max_size=4), st.sampled_from(sorted(ALGORITHMS)))
def test_a_password_belongs_to_its_hash(password: bytes, salt: bytes, algorithm: str) -> None:
    password_hash = hash_password(password, salt, algorithm)
    check_hash(password_hash, algorithm)
    assert verify_password(password, password_hash, algorithm)
    assert not verify_password(password + b"\x00", password_hash, algorithm)


@pytest.mark.parametrize("password_hash", ["", "x", "AAAA", "nöt base64", "kI3GCqW5JLMJa4iX1lo7X4D6"])
def test_nothing_belongs_to_a_malformed_hash(password_hash: str) -> None:
    assert not verify_password(b"", password_hash, DEFAULT_ALGORITHM)


def test_unknown_algorithm() -> None:
    good = hash_password(b"x", b"salt")
    assert not verify_password(b"x", good, "rabbit_password_hashing_rot13")
    with pytest.raises(ValueError, match="rot13"):
        check_hash(good, "rabbit_password_hashing_rot13")
    with pytest.raises(ValueError, match="rot13"):
        hash_password(b"x", b"salt", "rabbit_password_hashing_rot13")


def test_a_hash_of_another_algorithm_is_refused() -> None:
    with pytest.raises(ValueError, match="36 bytes"):
        check_hash(hash_password(b"x", b"salt", SHA256), SHA512)
    with pytest.raises(ValueError, match="base64"):
        check_hash("*", SHA256)
    check_hash("", SHA256)  # a user without a password

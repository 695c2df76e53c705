"""Names and ends of certificates, against what openssl wrote and RabbitMQ 3.10.8 was measured to show."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from amqp_router.sockets.x509 import common_names, distinguished_name, ends, validity
from tests.sockets.authority import Authority


def name(**parts: str) -> tuple[tuple[tuple[str, str]], ...]:
    return tuple(((key, value),) for key, value in parts.items())


def test_distinguished_name_as_rabbitmq_writes_it() -> None:
    found = name(
        countryName="DE", organizationName="Shop, Inc", organizationalUnitName="a+b", commonName="guest"
    )
    assert distinguished_name(found) == "CN=guest,OU=a\\+b,O=Shop\\, Inc,C=DE"
    assert common_names(found) == ["guest"]


@pytest.mark.parametrize(
    ("value", "text"),
    [("#x", "\\#x"), (" x ", "\\ x\\ "), ('a"b', 'a\\"b'), ("a\\", "a\\\\"), ("ü", "ü"), ("", "")],
)
def test_escaped_values(value: str, text: str) -> None:
    assert distinguished_name(name(commonName=value)) == f"CN={text}"


def test_validity() -> None:
    times = {"notBefore": "Nov 29 00:52:05 2026 GMT", "notAfter": "Dec 19 00:52:05 2026 GMT"}
    assert validity(times) == "2026-11-29T00:52:05Z - 2026-12-19T00:52:05Z"


@pytest.mark.parametrize("days", [3, 36500])
def test_end_of_a_certificate(tmp_path: Path, days: int) -> None:
    """The second is after 2050, where the form of the time changes."""
    certificate, _ = Authority(tmp_path).make("a", "/CN=a", days=days)
    (end,) = ends(certificate.read_text())
    assert abs(end - time.time() - days * 86400) < 3600


def test_what_is_no_certificate() -> None:
    assert ends("nothing") == []
    with pytest.raises(ValueError, match="certificate"):
        ends("-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n")

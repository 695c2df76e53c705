"""Names in certificates, as RFC 4514 writes them, and the time when a certificate ends.

Python tells the names of a certificate that it has verified (``ssl.SSLObject.getpeercert``), but nothing of
our own certificates, so the end of those is read from their bytes.

Source: RFC 4514 (names as text), RFC 5280 section 4.1 (certificates), X.690 (DER); the spelling of names is
that of RabbitMQ 3.10.8, measured.
"""

from __future__ import annotations

import re
import ssl
from datetime import UTC, datetime
from typing import Any

#: The short names of what Python names in full; others keep their name.
SHORT = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "emailAddress": "EMAILADDRESS",
    "generationQualifier": "GENERATIONQUALIFIER",
    "givenName": "GIVENNAME",
    "initials": "INITIALS",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "pseudonym": "PSEUDONYM",
    "serialNumber": "SERIALNUMBER",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "surname": "SN",
    "title": "TITLE",
    "userId": "UID",
}
_PEM = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
#: Tags of DER: the optional version of a certificate, and the older of the two kinds of time.
_VERSION, _UTC_TIME = 0xA0, 0x17
#: Two digits of a year below this are of this century.
_CENTURY = 50


def distinguished_name(name: Any) -> str:
    """``CN=orders,OU=shop,O=Example`` of a name as ``getpeercert`` gives it, the last part first."""
    parts = ["+".join(f"{SHORT.get(kind, kind)}={_escaped(value)}" for kind, value in rdn) for rdn in name]
    return ",".join(reversed(parts))


def common_names(name: Any) -> list[str]:
    """The common names in a name as ``getpeercert`` gives it."""
    return [value for rdn in name for kind, value in rdn if kind == "commonName"]


def validity(certificate: dict[str, Any]) -> str:
    """``2026-11-29T00:52:05Z - 2026-12-19T00:52:05Z``: when a certificate begins and ends."""
    times = [
        datetime.fromtimestamp(ssl.cert_time_to_seconds(certificate[key]), UTC)
        for key in ("notBefore", "notAfter")
    ]
    return " - ".join(f"{time:%Y-%m-%dT%H:%M:%SZ}" for time in times)


def _escaped(value: str) -> str:
    text = re.sub(r'([,+"\\<>;])', r"\\\1", value)
    if text[:1] in (" ", "#"):
        text = "\\" + text
    if len(text) > 1 and text.endswith(" ") and not text.endswith("\\ "):
        text = text[:-1] + "\\ "
    return text


def ends(pem: str) -> list[float]:
    """When each certificate of a PEM file ends, in seconds since 1970.

    Raises:
        ValueError: a certificate is not one.
    """
    return [_end(ssl.PEM_cert_to_DER_cert(block)) for block in _PEM.findall(pem)]


def _end(der: bytes) -> float:
    try:
        position = _element(der, _element(der, 0)[1])[1]
        tag, _, end = _element(der, position)
        if tag == _VERSION:
            position = end
        for _ in ("serial number", "signature algorithm", "issuer"):
            position = _element(der, position)[2]
        not_after = _element(der, _element(der, position)[1])[2]
        tag, start, end = _element(der, not_after)
    except IndexError:
        raise ValueError("not a certificate") from None
    text = der[start:end].decode("ascii")
    if tag == _UTC_TIME:
        text = f"{19 if int(text[:2]) >= _CENTURY else 20}{text}"
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()


def _element(der: bytes, position: int) -> tuple[int, int, int]:
    """Tag, start and end of the content of the element at ``position``."""
    length, start = der[position + 1], position + 2
    if length & 0x80:
        count = length & 0x7F
        length, start = int.from_bytes(der[start : start + count], "big"), start + count
    return der[position], start, start + length

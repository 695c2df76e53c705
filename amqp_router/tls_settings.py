"""The options of TLS as a listener needs them, and what they must have in common."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from amqp_router.config import ConfigError, Settings
from amqp_router.sockets import CertificateError, Certificates, ServerName, TlsOptions


def certificates(settings: Settings, prefix: str, event: Callable[..., None]) -> Certificates | None:
    """The certificates of the listener whose options begin with ``prefix``; None if it has none.

    Raises:
        ConfigError: an option is set that needs another, or a file cannot be used.
    """
    options = tls_options(settings, prefix)
    if options is None:
        return None
    try:
        return Certificates(options, event)
    except CertificateError as error:
        raise ConfigError(str(error)) from None


def check_listeners(settings: Settings) -> None:
    """See that AMQP clients have a port.

    Raises:
        ConfigError: they have none.
    """
    if settings.amqp_port is None and settings.amqps_certificate is None:
        raise ConfigError(
            "amqp_port is none, but amqps_certificate is not set: AMQP clients would have no port"
        )


def tls_options(settings: Settings, prefix: str) -> TlsOptions | None:
    """The options whose names begin with ``prefix`` (``amqps``); None if they name no certificate.

    Raises:
        ConfigError: an option is set that needs another.
    """

    def value(name: str) -> Any:
        return getattr(settings, f"{prefix}_{name}", None)

    verify = value("verify") == "peer"
    login_from = value("login_from") or "none"
    asked = {
        "key": value("key") is not None,
        "key_password_file": value("key_password_file") is not None,
        "ca": value("ca") is not None,
        "crl": value("crl") is not None,
        "verify": verify,
        "require_certificate": value("require_certificate"),
        "sni": bool(value("sni")),
        "login_from": login_from != "none",
    }
    if value("certificate") is None:
        for name, is_set in asked.items():
            if is_set:
                raise ConfigError(f"{prefix}_{name} is set, but {prefix}_certificate is not")
        return None
    if verify and value("ca") is None:
        raise ConfigError(f"{prefix}_verify is peer, but {prefix}_ca is not set")
    for name in ("require_certificate", "login_from", "crl"):
        if asked[name] and not verify:
            raise ConfigError(f"{prefix}_{name} is set, but {prefix}_verify is not peer")
    return TlsOptions(
        prefix=prefix,
        certificate=value("certificate"),
        key=value("key"),
        key_password_file=value("key_password_file"),
        ca=value("ca"),
        crl=value("crl"),
        verify=verify,
        require_certificate=bool(value("require_certificate")),
        min_version=value("min_version"),
        names=server_names(f"{prefix}_sni", value("sni")),
        login_from=login_from,
    )


def server_names(option: str, text: str) -> tuple[ServerName, ...]:
    """``a.example=a.pem:a.key, *.b.example=b.pem:b.key``, one by one.

    Raises:
        ConfigError: a part has another form.
    """
    found = []
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, _, files = part.partition("=")
        certificate, _, key = files.partition(":")
        if not name or not certificate or not key:
            raise ConfigError(f"{option}: {part!r} is not NAME=CERTIFICATE:KEY")
        found.append(ServerName(name.strip(), Path(certificate), Path(key)))
    return tuple(found)

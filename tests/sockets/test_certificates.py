"""Certificates are read again, and an unusable file is named in one line."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from amqp_router import tls_settings
from amqp_router.config import ConfigError, Settings
from amqp_router.sockets.certificates import CertificateError, Certificates, ServerName, TlsOptions
from amqp_router.sockets.x509 import common_names
from tests.sockets.authority import Authority


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    made = Authority(tmp_path_factory.mktemp("ca"))
    made.make("server", "/CN=localhost")
    made.make("other", "/CN=other", names="DNS:other.example,DNS:a.wild.example")
    return made


@pytest.fixture
def options(authority: Authority) -> TlsOptions:
    return TlsOptions("amqps", authority.directory / "server.pem", authority.directory / "server.key")


class Log:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, level: int, event: str, **facts: object) -> None:
        self.lines.append(event)


def served(certificates: Certificates, client: ssl.SSLContext, name: str) -> list[str]:
    """The common names of the certificate that a client gets who asks for ``name``."""
    a, b = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = certificates.context.wrap_bio(a, b, server_side=True)
    asking = client.wrap_bio(b, a, server_hostname=name)
    for _ in range(3):
        for side in (asking, server):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
    found = asking.getpeercert()
    assert found
    return common_names(found["subject"])


def test_certificate_by_server_name(authority: Authority, options: TlsOptions) -> None:
    other = authority.directory / "other.pem", authority.directory / "other.key"
    names = ServerName("other.example", *other), ServerName("*.wild.example", *other)
    certificates = Certificates(replace(options, names=names), Log())
    client = authority.client()
    assert served(certificates, client, "localhost") == ["localhost"]
    assert served(certificates, client, "other.example") == ["other"]
    assert served(certificates, client, "a.wild.example") == ["other"]


def test_reload_keeps_the_old_ones_until_all_files_fit(tmp_path: Path) -> None:
    authority, log = Authority(tmp_path), Log()
    certificate, key = authority.make("s", "/CN=one")
    certificates = Certificates(TlsOptions("amqps", certificate, key), log)
    client = authority.client()
    client.check_hostname = False
    old_key = key.read_bytes()
    authority.make("s", "/CN=two")
    new_key = key.read_bytes()
    key.write_bytes(old_key)
    assert not certificates.reload()
    assert not certificates.reload()
    assert log.lines.count("certificates not reloaded; the old ones stay in use") == 1
    assert served(certificates, client, "localhost") == ["one"]
    key.write_bytes(new_key)
    assert certificates.reload()
    assert served(certificates, client, "localhost") == ["two"]
    assert log.lines[-1] == "certificates reloaded"


class Later:
    """An event loop that only notes what is to come."""

    def __init__(self) -> None:
        self.call: Callable[[], None] = lambda: None

    def call_later(self, seconds: float, call: Callable[..., None], *args: object) -> Later:
        self.call = lambda: call(*args)
        return self

    def cancel(self) -> None:
        self.call = lambda: None


def test_changed_files_are_noticed(tmp_path: Path) -> None:
    authority, log, loop = Authority(tmp_path), Log(), Later()
    certificate, key = authority.make("s", "/CN=one")
    certificates = Certificates(TlsOptions("amqps", certificate, key), log)
    certificates.watch(loop)  # type: ignore[arg-type]
    before = certificates.context
    loop.call()
    assert certificates.context is before
    authority.make("s", "/CN=two")
    loop.call()
    assert certificates.context is not before
    certificates.stop()
    before = certificates.context
    authority.make("s", "/CN=three")
    loop.call()
    assert certificates.context is before


def test_certificate_that_ends_soon_is_told(tmp_path: Path) -> None:
    certificate, key = Authority(tmp_path).make("s", "/CN=s", days=3)
    log = Log()
    Certificates(TlsOptions("amqps", certificate, key), log)
    assert log.lines == ["certificate ends soon"]


def test_unusable_files(authority: Authority, options: TlsOptions, tmp_path: Path) -> None:
    text, missing = tmp_path / "text", tmp_path / "missing"
    text.write_text("nothing")
    for change, says in (
        ({"certificate": missing}, r"amqps_certificate: .*missing cannot be read \(No such file"),
        ({"key": missing}, "amqps_key: .*missing cannot be read"),
        ({"certificate": text}, "amqps_certificate: .*text and .* cannot be used: not a certificate"),
        ({"key": authority.directory / "other.key"}, "the key is not the certificate's"),
        ({"ca": text}, "amqps_ca: .*text has no certificate"),
        ({"names": (ServerName("x", text, text),)}, "amqps_sni: .*text"),
    ):
        with pytest.raises(CertificateError, match=says) as caught:
            Certificates(replace(options, **change), Log())  # type: ignore[arg-type]
        assert "\n" not in str(caught.value)


def test_key_with_a_password(options: TlsOptions, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    authority.make("server", "/CN=localhost")
    authority.make("other", "/CN=other", names="DNS:other.example")
    password = tmp_path / "password"
    password.write_bytes(b"open sesame\r\nsecond line")
    certificate, locked = tmp_path / "server.pem", authority.lock("server", "open sesame")
    other = ServerName("other.example", tmp_path / "other.pem", authority.lock("other", "open sesame"))
    given = TlsOptions("amqps", certificate, locked, key_password_file=password, names=(other,))
    client = authority.client()
    assert served(Certificates(given, Log()), client, "localhost") == ["localhost"]
    assert served(Certificates(given, Log()), client, "other.example") == ["other"]
    with pytest.raises(CertificateError, match="the key has a password, and amqps_key_password_file is not"):
        Certificates(replace(given, key_password_file=None, names=()), Log())
    password.write_text("close sesame\n")
    with pytest.raises(CertificateError, match="or the password in amqps_key_password_file is not the key's"):
        Certificates(given, Log())
    for wrong in ("\nopen sesame", "a" * 1024):
        password.write_text(wrong)
        with pytest.raises(CertificateError, match=r"the first line of .* is not a password of 1 to 1023"):
            Certificates(given, Log())
    with pytest.raises(CertificateError, match=r"amqps_key_password_file: .* cannot be read"):
        Certificates(replace(options, key_password_file=tmp_path / "missing"), Log())


def test_file_without_a_revocation_list(authority: Authority, options: TlsOptions) -> None:
    ca = authority.directory / "ca.pem"
    with pytest.raises(CertificateError, match=r"amqps_crl: .*ca.pem has no revocation list in PEM form"):
        Certificates(replace(options, ca=ca, crl=ca, verify=True), Log())


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"amqps_key_password_file": "f"}, "amqps_key_password_file is set, but amqps_certificate is not"),
        ({"admin_certificate": "c", "admin_crl": "l"}, "admin_crl is set, but admin_verify is not peer"),
        ({"amqps_key": "k"}, "amqps_key is set, but amqps_certificate is not"),
        ({"amqps_sni": "a=b:c"}, "amqps_sni is set, but amqps_certificate is not"),
        ({"admin_verify": "peer"}, "admin_verify is set, but admin_certificate is not"),
        ({"amqps_certificate": "c", "amqps_verify": "peer"}, "amqps_verify is peer, but amqps_ca is not set"),
        (
            {"amqps_certificate": "c", "amqps_login_from": "common_name"},
            "amqps_login_from is set, but amqps_verify is not peer",
        ),
        (
            {"admin_certificate": "c", "admin_require_certificate": "true"},
            "admin_require_certificate is set, but admin_verify is not peer",
        ),
        ({"amqps_certificate": "c", "amqps_sni": "a=b"}, "amqps_sni: 'a=b' is not NAME=CERTIFICATE:KEY"),
    ],
)
def test_options_that_need_each_other(given: dict[str, str], says: str) -> None:
    settings = Settings(**given)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=says):
        tls_settings.tls_options(settings, next(iter(given)).partition("_")[0])


def test_options_together() -> None:
    given = {"amqps_certificate": "c", "amqps_key": "k", "amqps_ca": "a", "amqps_verify": "peer"}
    more = {"amqps_sni": "A.example=x:y, *.b=z:w", "amqps_min_version": "1.3"}
    found = tls_settings.tls_options(Settings(**given, **more), "amqps")  # type: ignore[arg-type]
    assert found is not None
    assert (found.certificate, found.key, found.ca, found.verify) == (Path("c"), Path("k"), Path("a"), True)
    assert [each.name for each in found.names] == ["A.example", "*.b"]
    assert tls_settings.tls_options(Settings(), "admin") is None


@pytest.mark.parametrize("port", ["none", "None"])
def test_no_port_for_clients(port: str) -> None:
    settings = Settings(amqp_port=port)  # type: ignore[arg-type]
    assert settings.amqp_port is None
    with pytest.raises(ConfigError, match="amqp_port is none, but amqps_certificate is not set"):
        tls_settings.check_listeners(settings)
    tls_settings.check_listeners(Settings(amqp_port=port, amqps_certificate="c"))  # type: ignore[arg-type]

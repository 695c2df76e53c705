"""The certificates of a listener: read at the start, at SIGHUP, and when a file has changed.

Connections keep what they began with. If the new files do not belong together (a certificate was replaced,
its key not yet), the listener goes on with the old ones and looks again.

A client that names the server it wants (SNI) gets the certificate of that name, any other client the first
one.

Source: RabbitMQ, "TLS Support"; RFC 6066 section 3 (SNI); RFC 5280 section 5 (revocation lists).
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from amqp_router.sockets.x509 import ends

#: Seconds between looks at the files.
LOOK_S = 5.0
#: The log warns of a certificate that ends sooner than this many days from now.
WARN_DAYS = 14
DAY_S = 86_400.0
#: The longest password that OpenSSL takes, in octets.
PASSWORD_MAX = 1023
_CRL = b"-----BEGIN X509 CRL-----"
VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


class CertificateError(Exception):
    """A certificate cannot be used. The text is one line: the option, the file, and why."""


@dataclass(frozen=True, slots=True)
class ServerName:
    """The certificate for clients that ask for ``name``, which may begin with ``*.``."""

    name: str
    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """What a listener needs to speak TLS. ``prefix`` is what its options' names begin with."""

    prefix: str
    certificate: Path
    #: None: it is in the file of the certificate.
    key: Path | None = None
    #: A file whose first line is the password of this key and those of ``names``; None: they have none.
    key_password_file: Path | None = None
    #: Certificates of authorities that clients' certificates are compared with.
    ca: Path | None = None
    #: Revocation lists of these authorities; None: nothing is revoked.
    crl: Path | None = None
    #: Whether clients are asked for a certificate, and whether they must have one.
    verify: bool = False
    require_certificate: bool = False
    min_version: str = "1.2"
    names: tuple[ServerName, ...] = ()
    #: The part of a client's certificate that EXTERNAL takes as the user's name: "none", "common_name" or
    #: "distinguished_name".
    login_from: str = "none"

    @property
    def paths(self) -> dict[str, Path]:
        """The files by the names that RabbitMQ gives them."""
        named = {"certfile": self.certificate, "keyfile": self.key, "cacertfile": self.ca}
        return {name: path for name, path in named.items() if path is not None}


class Certificates:
    """The certificates of one listener. ``event(level, event, **facts)`` writes to the broker's log."""

    def __init__(
        self, options: TlsOptions, event: Callable[..., None], clock: Callable[[], float] = time.time
    ) -> None:
        """Read them.

        Raises:
            CertificateError: one cannot be used.
        """
        self.options = options
        self._event = event
        self._clock = clock
        self._timer: asyncio.TimerHandle | None = None
        self._told = ""
        self._seen = self._stamps()
        #: New connections are made with it.
        self.context = self._load()
        #: When the first certificate of each file ends, in seconds since 1970.
        self.ends: dict[Path, float] = {}
        self._read_ends()

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look for changed files from now on."""
        self._timer = loop.call_later(LOOK_S, self._look, loop)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def reload(self) -> bool:
        """Read all files again; False if they cannot be used, which the log tells once."""
        self._seen = self._stamps()
        try:
            self.context = self._load()
        except CertificateError as error:
            if str(error) != self._told:
                self._event(
                    logging.ERROR, "certificates not reloaded; the old ones stay in use", reason=error
                )
            self._told = str(error)
            return False
        self._told = ""
        self._event(logging.INFO, "certificates reloaded", certificate=self.options.certificate)
        self._read_ends()
        return True

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        # After a failure every look is a try: the second of two files may have had the same time of change.
        if self._told or self._stamps() != self._seen:
            self.reload()
        self.watch(loop)

    @property
    def files(self) -> list[tuple[str, Path]]:
        """The option and path of every file."""
        options = self.options
        found = [
            ("certificate", options.certificate),
            ("key", options.key),
            ("key_password_file", options.key_password_file),
            ("ca", options.ca),
            ("crl", options.crl),
        ]
        for name in options.names:
            found += [("sni", name.certificate), ("sni", name.key)]
        return [(f"{options.prefix}_{option}", path) for option, path in found if path is not None]

    def _stamps(self) -> list[tuple[int, int, int]]:
        """What changes when a file is replaced or written; a symbolic link counts as what it leads to."""
        found = []
        for _, path in self.files:
            try:
                stat = os.stat(path)
                found.append((stat.st_ino, stat.st_mtime_ns, stat.st_size))
            except OSError:
                found.append((0, 0, 0))
        return found

    def _load(self) -> ssl.SSLContext:
        options = self.options
        for option, path in self.files:
            try:
                path.read_bytes()
            except OSError as error:
                raise CertificateError(f"{option}: {path} cannot be read ({error.strerror})") from None
        context = _context(options, "certificate", options.certificate, options.key)
        if options.names:
            context.sni_callback = _chooser(
                {
                    each.name.lower(): _context(options, "sni", each.certificate, each.key)
                    for each in options.names
                }
            )
        return context

    def _read_ends(self) -> None:
        for option, path in self.files:
            found = []
            if option.endswith(("_certificate", "_ca", "_sni")):
                try:
                    found = ends(path.read_text(errors="replace"))
                except (OSError, ValueError):
                    continue  # the file has changed, or has a form that only OpenSSL knows
            if not found:
                continue
            self.ends[path] = found[0]
            left_s = found[0] - self._clock()
            if left_s < WARN_DAYS * DAY_S:
                self._event(
                    logging.WARNING,
                    "certificate has ended" if left_s < 0 else "certificate ends soon",
                    path=path,
                    days=round(left_s / DAY_S, 1),
                )


def _context(options: TlsOptions, option: str, certificate: Path, key: Path | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = VERSIONS[options.min_version]
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE | ssl.OP_NO_COMPRESSION
    try:
        # Without a password OpenSSL would ask for one at the terminal.
        context.load_cert_chain(certificate, key, password=partial(_password, options))
    except ssl.SSLError as error:
        names = f"{certificate}" if key is None else f"{certificate} and {key}"
        reason = _why(error, options, key or certificate)
        raise CertificateError(f"{options.prefix}_{option}: {names} cannot be used: {reason}") from None
    except OSError as error:
        raise CertificateError(f"{options.prefix}_{option}: {error}") from None
    _verify(context, options)
    return context


def _verify(context: ssl.SSLContext, options: TlsOptions) -> None:
    """Ask clients for certificates as the options say. A server name's context checks them by itself."""
    if options.ca is not None:
        try:
            context.load_verify_locations(options.ca)
        except ssl.SSLError:
            raise CertificateError(
                f"{options.prefix}_ca: {options.ca} has no certificate in PEM form"
            ) from None
    if options.crl is not None:
        try:
            has_list = _CRL in options.crl.read_bytes()
            context.load_verify_locations(options.crl)
        except (OSError, ssl.SSLError):
            has_list = False
        if not has_list:
            raise CertificateError(f"{options.prefix}_crl: {options.crl} has no revocation list in PEM form")
        context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF
    if options.verify:
        context.verify_mode = ssl.CERT_REQUIRED if options.require_certificate else ssl.CERT_OPTIONAL


def _password(options: TlsOptions) -> bytes:
    """The password of a key, for which OpenSSL asks.

    Raises:
        CertificateError: there is none, or OpenSSL takes none of this length.
    """
    path = options.key_password_file
    if path is None:
        return b""
    password = path.read_bytes().partition(b"\n")[0].rstrip(b"\r")
    if not 0 < len(password) <= PASSWORD_MAX:
        raise CertificateError(
            f"{options.prefix}_key_password_file: the first line of {path} is not a password of 1 to "
            f"{PASSWORD_MAX} octets"
        )
    return password


def _why(error: ssl.SSLError, options: TlsOptions, key: Path) -> str:
    """Why a certificate and its key cannot be used."""
    if error.reason == "KEY_VALUES_MISMATCH":
        return "the key is not the certificate's"
    try:
        is_encrypted = b"ENCRYPTED" in key.read_bytes()
    except OSError:
        is_encrypted = False
    if is_encrypted:
        option = f"{options.prefix}_key_password_file"
        if options.key_password_file is None:
            return f"the key has a password, and {option} is not set"
        return f"the key is broken, or the password in {option} is not the key's"
    return "not a certificate with its key in PEM form" + (f" ({error.reason})" if error.reason else "")


def _chooser(contexts: dict[str, ssl.SSLContext]) -> Callable[[ssl.SSLObject, str | None, object], None]:
    def choose(connection: ssl.SSLObject, name: str | None, _: object) -> None:
        wanted = (name or "").lower().rstrip(".")
        found = contexts.get(wanted) or contexts.get("*." + wanted.partition(".")[2])
        if found is not None:
            connection.context = found

    return choose

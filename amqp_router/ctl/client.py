"""Calls of the HTTP API, with a user's password or with the file that a running broker keeps for its owner.

The file ``ctl.json`` in the data directory has the broker's address and a random token. Only the owner of the
data directory can read it, and its token may do everything. So a first password can be set wherever the
broker listens.
"""

from __future__ import annotations

import base64
import http.client
import json
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

#: The file in the data directory.
FILE = "ctl.json"
#: Seconds that an answer may take; that of an import or export of very many definitions takes longer.
TIMEOUT_S = 60.0
LONG_S = 3600.0
FAILED, USAGE, UNAVAILABLE = 1, 2, 3


class CtlError(Exception):
    """A verb did not work; the text is one line, ``code`` the exit code."""

    def __init__(self, text: str, code: int = FAILED) -> None:
        super().__init__(text)
        self.code = code


class Refused(CtlError):
    """The broker refuses a call of ``path``; ``reason`` is its word for it, perhaps empty."""

    def __init__(self, text: str, *, status: int, reason: str, path: str) -> None:
        super().__init__(text)
        self.status = status
        self.reason = reason
        self.path = path


@dataclass(frozen=True)
class Access:
    """Where the broker is, and the value of the header Authorization."""

    url: str
    authorization: str
    #: Whether the broker must show a certificate that is trusted. Its own file names an address of this
    #: machine, which certificates seldom have.
    verifies: bool = True
    #: The data directory whose file this was read from.
    data_dir: Path | None = None


def by_file(data_dir: Path) -> Access:
    """Access to the broker that runs on ``data_dir``.

    Raises:
        CtlError: none does, or the file belongs to somebody else.
    """
    path = data_dir / FILE
    try:
        found = json.loads(path.read_text())
        return Access(str(found["url"]), f"Bearer {found['token']}", verifies=False, data_dir=data_dir)
    except FileNotFoundError:
        text = f"{path}: no broker with an admin port runs on this data directory"
        raise CtlError(f"{text}; name it with --data-dir, or the broker with --url", UNAVAILABLE) from None
    except PermissionError:
        text = f"{path}: only its owner may read it"
        raise CtlError(f"{text}; become that user, or log in with --url and --user", UNAVAILABLE) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CtlError(f"{path}: cannot be read ({error})", UNAVAILABLE) from None


def by_password(url: str, user: str, password: str) -> Access:
    """Access as a user."""
    credentials = base64.b64encode(f"{user}:{password}".encode()).decode()
    return Access(url, f"Basic {credentials}")


def by_token(url: str, token: str) -> Access:
    """Access with an API token."""
    return Access(url, f"Bearer {token}")


@dataclass(frozen=True)
class Certificates:
    """Files for HTTPS: certificates to trust, and the client's own with its key."""

    trusted: Path | None = None
    own: Path | None = None
    key: Path | None = None


class Client:
    """Calls one broker."""

    def __init__(self, access: Access, certificates: Certificates | None = None) -> None:
        """Raises:
        CtlError: the URL is not one, or a certificate cannot be used.
        """
        certificates = certificates or Certificates()
        parts = urlsplit(access.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise CtlError(f"--url: {access.url!r} is not like http://127.0.0.1:15672", USAGE)
        self._access = access
        self._certificates = certificates
        self._base = parts.path.rstrip("/")
        try:
            port = parts.port or (443 if parts.scheme == "https" else 15672)
        except ValueError as error:
            raise CtlError(f"--url: {error}", USAGE) from None
        if parts.scheme == "https":
            context = _context(certificates, verifies=access.verifies)
            self._connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                parts.hostname, port, timeout=TIMEOUT_S, context=context
            )
        else:
            self._connection = http.client.HTTPConnection(parts.hostname, port, timeout=TIMEOUT_S)

    @property
    def url(self) -> str:
        """The broker's address."""
        return self._access.url

    def as_user(self, user: str, password: str) -> Client:
        """The same broker, as a user."""
        access = replace(by_password(self.url, user, password), verifies=self._access.verifies)
        return Client(access, self._certificates)

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> Any:
        """The JSON of the answer; None without one. ``path`` begins with ``/api`` or ``/admin``.

        Raises:
            CtlError: the broker refuses, or cannot be reached.
        """
        target = self._base + path + (f"?{urlencode(query)}" if query else "")
        data = None if body is None else json.dumps(body).encode()
        sent = {"Authorization": self._access.authorization, "Accept": "application/json", **(headers or {})}
        if data is not None:
            sent["Content-Type"] = "application/json"
        self._connection.timeout = timeout_s
        if self._connection.sock is not None:
            self._connection.sock.settimeout(timeout_s)
        try:
            self._connection.request(method, target, data, sent)
            reply = self._connection.getresponse()
            content = reply.read()
        except ssl.SSLCertVerificationError as error:
            text = f"{self._access.url}: its certificate is not trusted ({error.verify_message})"
            raise CtlError(f"{text}; --cacert names certificates to trust", UNAVAILABLE) from None
        except (OSError, http.client.HTTPException) as error:
            where = self._access.url
            if "CERTIFICATE_REQUIRED" in str(error).upper().replace(" ", "_"):
                raise CtlError(
                    f"{where}: the port asks clients for a certificate; --cert names one", UNAVAILABLE
                ) from None
            raise CtlError(_unreachable(self._access, error, timeout_s), UNAVAILABLE) from None
        if reply.status >= 300:
            reason = _reason(content)
            text = _text(reply.status, reason)
            raise Refused(text, status=reply.status, reason=reason, path=path)
        try:
            return json.loads(content) if content else None
        except ValueError:
            raise CtlError(
                f"{self._access.url}{path}: the answer is not JSON; is that the admin port?"
            ) from None

    def get(self, path: str, **query: str) -> Any:
        """As ``call`` with GET."""
        return self.call("GET", path, query=query)


def _context(certificates: Certificates, *, verifies: bool) -> ssl.SSLContext:
    """How to speak TLS.

    Raises:
        CtlError: a file cannot be used.
    """
    trusted, own, key = certificates.trusted, certificates.own, certificates.key
    try:
        context = ssl.create_default_context(cafile=trusted)
    except OSError as error:
        raise CtlError(f"--cacert: {trusted} cannot be used ({error})", USAGE) from None
    if not verifies and trusted is None:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if own is not None:
        try:
            context.load_cert_chain(own, key)
        except OSError as error:
            files = f"{own} and {key}" if key is not None else f"{own}"
            raise CtlError(f"--cert: {files} cannot be used ({error})", USAGE) from None
    return context


def _unreachable(access: Access, error: Exception, timeout_s: float) -> str:
    """Why there is no answer, and what to do."""
    if isinstance(error, ConnectionRefusedError):
        if access.data_dir is not None:
            # A killed broker leaves its file behind.
            return (
                f"no broker runs on {access.data_dir} (it was at {access.url}); "
                f"start it with `amqp-router serve --data-dir {access.data_dir}`, "
                "or name another with --data-dir"
            )
        return f"{access.url}: nothing listens there; name the broker's admin port with --url"
    if isinstance(error, TimeoutError):
        return f"{access.url}: no answer within {timeout_s:.0f} s; the broker may still be at it"
    return f"{access.url} cannot be reached ({error or type(error).__name__})"


def _reason(content: bytes) -> str:
    """The broker's word for a refusal; empty if it has none."""
    try:
        reason = json.loads(content)["reason"]
    except (ValueError, KeyError, TypeError):
        return ""
    if isinstance(reason, list):
        return " ".join(map(str, reason))
    return reason if isinstance(reason, str) else json.dumps(reason)


def _text(status: int, reason: str) -> str:
    """A refusal on one line. Names of Erlang's form, which RabbitMQ's tools know, become plain words."""
    if status == 401 and not reason:
        reason = "a login is needed"
    if status == 404 and reason in ("", "Not Found"):
        reason = "there is no such object"
    reason = re.sub(r'<<"(.*?)">>', r'"\1"', reason).removeprefix("Validation failed")
    unknown = re.fullmatch(r"\s*\[(\{.*\})\] are not recognised policy settings\s*", reason, re.DOTALL)
    if unknown:
        keys = re.findall(r'\{("[^"]*"),', unknown[1])
        reason = f"policies have no key {', '.join(keys)}"
    return f"{' '.join(reason.split()) or 'refused'} ({status})"


def part(name: str) -> str:
    """A name as a part of a path."""
    return quote(name, safe="", errors="surrogateescape")


def own_part(name: str) -> str:
    """A name as a part of a path below ``/admin/v1``, where a ~ stands before names like ``.`` and ``..``."""
    return part(f"~{name}" if re.fullmatch(r"~*\.\.?", name) else name)

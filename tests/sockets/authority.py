"""A certificate authority for tests, made with the command ``openssl``."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


def server_authority(directory: Path) -> Authority:
    """An authority with a certificate for ``localhost``: ``server.pem`` and ``server.key``."""
    made = Authority(directory)
    made.make("server", "/CN=localhost")
    return made


class Authority:
    """Makes certificates in ``directory``; its own is ``ca.pem``."""

    def __init__(self, directory: Path, name: str = "/CN=Test CA") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.certificate, self.key = directory / "ca.pem", directory / "ca.key"
        _openssl(
            "req", "-x509", *KEY, "-days", "30", "-subj", name, "-keyout", self.key, "-out", self.certificate
        )

    def make(
        self, file: str, subject: str, *, names: str = "DNS:localhost,IP:127.0.0.1", days: int = 20
    ) -> tuple[Path, Path]:
        """A certificate and its key; the files are replaced if they exist."""
        request, extensions = self.directory / f"{file}.csr", self.directory / f"{file}.ext"
        certificate, key = self.directory / f"{file}.pem", self.directory / f"{file}.key"
        extensions.write_text(f"subjectAltName={names}\n")
        new_key, new_certificate = key.with_suffix(".new-key"), certificate.with_suffix(".new")
        _openssl("req", *KEY, "-subj", subject, "-keyout", new_key, "-out", request)
        _openssl(
            *("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.key),
            *("-CAcreateserial", "-days", str(days), "-extfile", extensions, "-out", new_certificate),
        )
        new_key.replace(key)
        new_certificate.replace(certificate)
        return certificate, key

    def client(self, file: str = "", **versions: ssl.TLSVersion) -> ssl.SSLContext:
        """A client's context that trusts this authority, with the certificate ``file`` if one is named."""
        context = ssl.create_default_context(cafile=str(self.certificate))
        if file:
            context.load_cert_chain(self.directory / f"{file}.pem", self.directory / f"{file}.key")
        for name, version in versions.items():
            setattr(context, name, version)
        return context

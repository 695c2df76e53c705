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

    def lock(self, file: str, password: str) -> Path:
        """The key of the certificate ``file`` once more, with a password."""
        locked = self.directory / f"{file}.locked"
        _openssl(
            *("pkey", "-in", self.directory / f"{file}.key", "-aes256"),
            *("-passout", f"pass:{password}", "-out", locked),
        )
        return locked

    def revoke(self, *files: str, ended: bool = False) -> Path:
        """A list of this authority on which the certificates ``files`` stand, and those of earlier calls."""
        config, found = self.directory / "lists.cnf", self.directory / "crl.pem"
        if not config.exists():
            config.write_text(
                f"[ca]\ndefault_ca = lists\n[lists]\ndatabase = {self.directory / 'index'}\n"
                f"crlnumber = {self.directory / 'number'}\ndefault_md = sha256\ndefault_crl_days = 20\n"
            )
            (self.directory / "index").touch()
            (self.directory / "number").write_text("01\n")
        ca = ("ca", "-config", config, "-keyfile", self.key, "-cert", self.certificate)
        for file in files:
            _openssl(*ca, "-revoke", self.directory / f"{file}.pem")
        times = ("-crl_lastupdate", "20200101000000Z", "-crl_nextupdate", "20200201000000Z")
        new = found.with_suffix(".new")
        _openssl(*ca, "-gencrl", "-out", new, *(times if ended else ()))
        new.replace(found)
        return found

    def client(self, file: str = "", **versions: ssl.TLSVersion) -> ssl.SSLContext:
        """A client's context that trusts this authority, with the certificate ``file`` if one is named."""
        context = ssl.create_default_context(cafile=str(self.certificate))
        if file:
            context.load_cert_chain(self.directory / f"{file}.pem", self.directory / f"{file}.key")
        for name, version in versions.items():
            setattr(context, name, version)
        return context

"""What stands between the kernel's sockets and the protocols of clients: TLS.

``certificates`` reads certificates and reads them again when they change, ``tls`` is the encrypted socket,
``handshakes`` bounds what clients cost that have not finished their TLS handshake, ``x509`` reads
certificates.
"""

from amqp_router.sockets.certificates import CertificateError, Certificates, ServerName, TlsOptions
from amqp_router.sockets.handshakes import Handshakes
from amqp_router.sockets.tls import TlsFacts, TlsSocket

__all__ = [
    "CertificateError",
    "Certificates",
    "Handshakes",
    "ServerName",
    "TlsFacts",
    "TlsOptions",
    "TlsSocket",
]

"""What stands between the kernel's sockets and the protocols of clients: TLS, and proxies.

``accepting`` takes clients off the kernel's queues. ``certificates`` reads certificates and reads them again
when they change, ``tls`` is the encrypted socket, ``handshakes`` bounds what clients cost that have not
finished their TLS handshake, ``x509`` reads certificates. ``proxies`` says which proxies are believed,
``proxy_protocol`` reads what they say of a connection.
"""

from amqp_router.sockets.accepting import BACKLOG, Accepting
from amqp_router.sockets.certificates import CertificateError, Certificates, ServerName, TlsOptions
from amqp_router.sockets.handshakes import Handshakes
from amqp_router.sockets.proxies import Proxies
from amqp_router.sockets.proxy_protocol import ProxyHeader
from amqp_router.sockets.tls import TlsFacts, TlsSocket

__all__ = [
    "BACKLOG",
    "Accepting",
    "CertificateError",
    "Certificates",
    "Handshakes",
    "Proxies",
    "ProxyHeader",
    "ServerName",
    "TlsFacts",
    "TlsOptions",
    "TlsSocket",
]

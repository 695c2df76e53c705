"""Proxies in front of the broker, and the clients behind them.

A proxy of HTTP names its client in the header ``X-Forwarded-For``. Everybody can send that header, so it is
used only from addresses in the option ``trusted_proxies``. Of several addresses in it, the last one that is
not such a proxy is the client.

Source: MDN, X-Forwarded-For, "Selecting an IP address".
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable


class Proxies:
    """The trusted proxies: addresses and networks."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        """Parse addresses (``10.0.0.7``) and networks (``10.0.0.0/8``).

        Raises:
            ValueError: one is neither.
        """
        self._networks = [ipaddress.ip_network(name, strict=False) for name in names]

    def trust(self, address: str) -> bool:
        """Whether ``address`` is a trusted proxy."""
        if not self._networks:
            return False
        parsed = _parse(address)
        return parsed is not None and any(parsed in network for network in self._networks)

    def client(self, peer: str, forwarded: Iterable[str]) -> str:
        """The client's address: ``peer``, or if that is a trusted proxy, the one in ``X-Forwarded-For``."""
        if not self.trust(peer):
            return peer
        names = [name.strip() for header in forwarded for name in header.split(",")]
        for name in reversed(names):
            parsed = _parse(name)
            if parsed is None:
                return peer
            if not self.trust(name):
                return str(parsed)
        return peer


def _parse(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return None
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return mapped or parsed

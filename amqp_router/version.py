"""The version, read by the build, ``--version`` and the server properties of the handshake."""

VERSION = "0.1.0"

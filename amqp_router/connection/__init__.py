"""One client connection: handshake, frame loop, heartbeats, output."""

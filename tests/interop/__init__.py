"""Real clients and raw sockets against a running broker."""

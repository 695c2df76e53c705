"""Exchange types and the router that walks their bindings."""

"""Definitions of vhosts, users, exchanges, queues and bindings on SQLAlchemy Core."""

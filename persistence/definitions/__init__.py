"""Definitions: virtual hosts, users, permissions and every durable exchange, queue and binding."""

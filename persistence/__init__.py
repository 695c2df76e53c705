"""Durable state: queue logs and definitions."""

import amqp_router  # noqa: F401 - puts the rule for compiled modules in force

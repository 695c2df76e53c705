"""Durable state: queue logs and definitions."""

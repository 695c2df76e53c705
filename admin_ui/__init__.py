"""The admin door: RabbitMQ's HTTP API under ``/api`` and the pages under ``/ui``."""

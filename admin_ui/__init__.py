"""The admin server: RabbitMQ's HTTP API under ``/api``, our own under ``/admin/v1``, and the pages.

The only package that knows aiohttp. Handlers are plain functions from a `Call` to a document (``api``), made
of what the broker has at that moment (``documents``) and of rates from ``amqp_router.metrics``.
"""

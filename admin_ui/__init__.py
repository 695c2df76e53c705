"""The admin server: RabbitMQ's HTTP API under ``/api``, our own under ``/admin/v1``, and the pages.

This is the only package that uses aiohttp. Handlers (``api``) are plain functions from a `Call` to a
document. They make it from the broker's objects at that moment (``documents``) and from the rates of
``amqp_router.metrics``.
"""

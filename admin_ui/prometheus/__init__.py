"""Metrics for Prometheus: ``/metrics``, ``/metrics/per-object`` and ``/metrics/detailed``.

Names, types and labels are those of RabbitMQ's plug-in ``rabbitmq_prometheus`` where both count the same, so
that RabbitMQ's Grafana dashboards work. What only this broker has begins with ``amqp_router_``.
"""

from admin_ui.prometheus.pages import add_routes, make_app

__all__ = ["add_routes", "make_app"]

"""What all tests share."""

from __future__ import annotations

from amqp_router import compiled


def pytest_report_header() -> str:
    """Say at the top of a run which build is tested."""
    return f"amqp-router: {compiled.build.summary()}"

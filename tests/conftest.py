"""What all tests share."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

from amqp_router import compiled

# How long an example takes says something about the machine's other load, nothing about the code.
settings.register_profile("no clock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("no clock")


def pytest_report_header() -> str:
    """Say at the top of a run which build is tested."""
    return f"amqp-router: {compiled.build.summary()}"

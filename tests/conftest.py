"""What all tests share."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

from amqp_router import compiled

# How long an example takes says something about the machine's other load, nothing about the code.
settings.register_profile("no clock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# For tests that are to fail (``tests/planting.py``): the same examples every time, and the first that fails
# is enough. Making it smaller takes Hypothesis anything up to minutes.
settings.register_profile(
    "first failure",
    settings.get_profile("no clock"),
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
)
settings.load_profile("no clock")

# Brokers of several tests at a time would want the same port.
os.environ.setdefault("AMQP_ROUTER_METRICS_PORT", "0")


def pytest_report_header() -> str:
    """Say at the top of a run which build is tested."""
    return f"amqp-router: {compiled.build.summary()}"

"""``python -m tests.admin_ui.prometheus.real``: Debian's Prometheus scrapes a broker and runs our rules.

It needs the package `prometheus` (``apt-get install prometheus``). Every expression of the dashboard and of
the alert rules must find series, an alarm of the disk must fire its alert, and so must a broker that is gone.
Nothing of the rules is shortened, so this takes four minutes.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from tests.brokers import ROOT, RouterProcess
from tests.interop.wire import Wire
from tests.ports import free_port

MONITORING = ROOT / "docs" / "monitoring"
RULES = MONITORING / "alerts.yml"
#: Seconds within which an alert fires: the longest ``for`` of those waited for is a minute.
FIRES_S = 150.0
CONFIG = """
global: {{scrape_interval: 2s, evaluation_interval: 2s}}
rule_files: [{rules}]
scrape_configs:
  - job_name: amqp-router
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""


class Prometheus:
    """One server with its own data, which scrapes the metrics at ``port``."""

    def __init__(self, directory: Path, port: int) -> None:
        config = directory / "prometheus.yml"
        config.write_text(CONFIG.format(rules=RULES, port=port))
        subprocess.run(["promtool", "check", "config", str(config)], check=True)
        self._url = f"http://127.0.0.1:{free_port()}"
        self._process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={config}",
                f"--storage.tsdb.path={directory / 'series'}",
                f"--web.listen-address={self._url.removeprefix('http://')}",
                "--log.level=warn",
            ]
        )

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()

    def get(self, path: str, **query: str) -> Any:
        """The data of an answer of Prometheus' HTTP API; None while it does not serve."""
        url = f"{self._url}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url) as answer:
                return json.loads(answer.read())["data"]
        except urllib.error.HTTPError:
            raise
        except OSError:
            return None

    def series(self, expression: str) -> int:
        """How many series an expression has now."""
        found = self.get("query", query=expression)
        return len(found["result"]) if found else 0

    def firing(self) -> set[str]:
        """Names of the alerts that fire."""
        found = self.get("alerts") or {"alerts": []}
        return {alert["labels"]["alertname"] for alert in found["alerts"] if alert["state"] == "firing"}

    def wait(self, what: str, holds: Any) -> None:
        """Wait until ``holds()``.

        Raises:
            TimeoutError: it does not within ``FIRES_S``.
        """
        began = time.monotonic()
        while not holds():
            if time.monotonic() - began > FIRES_S:
                raise TimeoutError(f"{what}; firing: {sorted(self.firing())}")
            time.sleep(0.5)
        print(f"{time.monotonic() - began:5.1f} s  {what}", flush=True)


def expressions() -> list[str]:
    """What the dashboard and the rules ask, every comparison taken away: those find nothing on a good day."""
    board = json.loads((MONITORING / "grafana-dashboard.json").read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]
    asked = [text.replace("$__rate_interval", "10s").replace("$instance", ".*") for text in asked]
    rules = re.findall(r"^ *expr: (.*)$", RULES.read_text(), re.MULTILINE)
    return asked + [re.sub(r" [<>=]+ [\d.]+$", "", text) for text in rules]


def main() -> int:
    subprocess.run(["promtool", "check", "rules", str(RULES)], check=True)
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="prometheus-") as name:
        directory = Path(name)
        options = ["--metrics-port", str(port), "--disk-free-limit", "1048576GiB"]
        broker = RouterProcess(directory / "broker", options=options)
        broker.start()
        prometheus = Prometheus(directory, port)
        try:
            prometheus.wait("the broker is scraped", lambda: prometheus.series("up == 1"))
            with Wire(broker.port) as wire:
                wire.open_channel(1)
                wire.ok(1, "queue.declare", queue="waiting")
            time.sleep(6)  # rates need two scrapes
            asked = expressions()
            missing = [text for text in asked if not prometheus.series(text)]
            print(f"{len(asked)} expressions, {len(missing)} without series: {missing}")
            prometheus.wait(
                "the alarm of the disk fires", lambda: "AmqpRouterDiskAlarm" in prometheus.firing()
            )
            print(f"        firing: {sorted(prometheus.firing())}")
            broker.stop()
            prometheus.wait("a broker that is gone fires", lambda: "AmqpRouterDown" in prometheus.firing())
        finally:
            prometheus.stop()
            broker.stop()
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())

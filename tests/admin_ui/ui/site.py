"""A broker with its pages, and a visitor to them."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pika

from tests.brokers import RouterProcess

CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WIDE, PHONE = (1440, 900), (390, 844)
#: Milliseconds that a page may take. It says "never": other programs may have the processors.
PATIENCE_MS = 60_000
AXE = Path(__file__).parent / "vendor" / "axe.min.js"
#: Chromium's own words for a request that failed.
FAILED_REQUEST = re.compile(
    r"Failed to load resource: (the server responded with a status of (\d+)|net::\S+)"
)


def find_chromium() -> str | None:
    """Where the browser is; None if it is not installed."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Site:
    """A broker on free ports that stay the same over a restart."""

    def __init__(self, directory: Path) -> None:
        self.broker = RouterProcess(directory)
        self.admin_port = self.broker.admin_port

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.admin_port}"

    def start(self) -> None:
        self.broker.start()

    def stop(self) -> None:
        self.broker.stop()

    def connect(self) -> pika.BlockingConnection:
        """A client of user guest; without heartbeats, as it says nothing while the browser has its time."""
        return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self.broker.port, heartbeat=0))


class Visit:
    """One visitor: a browser profile of its own and one page. ``complaints`` are the console's."""

    def __init__(
        self,
        browser: Any,
        site: Site,
        *,
        size: tuple[int, int] = WIDE,
        scheme: str = "light",
        log_in: bool = True,
    ) -> None:
        self.site = site
        self.complaints: list[str] = []
        #: Patterns of what requests may fail with from now on.
        self._expected_later: list[str] = []
        self.context = browser.new_context(
            viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, reduced_motion="reduce"
        )
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE_MS)
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.complaints.append(f"{error}"))
        if log_in:
            self.log_in()

    def _heard(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            complaint = f"{message.type}: {message.text} {message.location.get('url', '')}"
            if not any(_failed(complaint, pattern) for pattern in self._expected_later):
                self.complaints.append(complaint)

    def log_in(self, user: str = "guest", password: str = "guest") -> None:
        """By the form, as a person does."""
        self.open("/ui/")
        self.page.fill("input[name=username]", user)
        self.page.fill("input[name=password]", password)
        self.page.click("button[type=submit]")
        self.page.wait_for_selector(".shell")

    def open(self, path: str) -> None:
        self.page.goto(self.site.base + path)

    def path(self) -> str:
        """The address shown, without the site."""
        return str(self.page.url).removeprefix(self.site.base)

    def expect_requests_to_fail(self, pattern: str, *, later_too: bool = False) -> None:
        """Forget complaints about requests that failed as the test wanted: a status, or net::ERR_...

        With ``later_too`` those that are still to come, too: the broker is away for the rest of the test.
        """
        self.complaints = [each for each in self.complaints if not _failed(each, pattern)]
        if later_too:
            self._expected_later.append(pattern)

    def axe(self, rules: list[str] | None = None) -> list[str]:
        """What axe-core finds wrong for WCAG 2.1 A and AA, or by ``rules`` alone: "impact rule: element"."""
        self.page.evaluate(AXE.read_text())
        options = {"runOnly": rules or ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]}
        found = self.page.evaluate("(options) => axe.run(document, options)", options)
        return [
            f"{one['impact']} {one['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
            for one in found["violations"]
            for node in one["nodes"]
        ]

    def overflows(self) -> bool:
        """Whether the page is wider than the window."""
        return bool(self.page.evaluate("document.documentElement.scrollWidth > innerWidth"))

    def close(self) -> None:
        self.context.close()


def queue_path(name: str) -> str:
    return f"/ui/queues/%2F/{quote(name, safe='')}"


def _failed(complaint: str, pattern: str) -> bool:
    """Whether a request has failed with what ``pattern`` matches."""
    found = FAILED_REQUEST.search(complaint)
    return found is not None and re.search(pattern, found[1]) is not None

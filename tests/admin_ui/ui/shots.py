"""Pictures of every page, to be looked at: ``python -m tests.admin_ui.ui.shots DIR [--seconds 620]``.

Starts a broker with traffic of its own, waits so long, and takes each page in light, in dark and on a phone.
Ten minutes fill the sparklines.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.admin_ui.ui.load import Load
from tests.admin_ui.ui.site import CHROMIUM_FLAGS, PHONE, WIDE, Site, Visit, find_chromium, queue_path

PAGES = {
    "overview": "/ui/",
    "overview-10m": "/ui/?range=10m",
    "queues": "/ui/queues",
    "queue": queue_path("flights.newark") + "?range=10m",
    "exchanges": "/ui/exchanges",
    "exchange": "/ui/exchanges/%2F/flights?range=10m",
    "connections": "/ui/connections",
}
VARIANTS = {
    "light": ("light", WIDE),
    "dark": ("dark", WIDE),
    "phone": ("light", PHONE),
    "phone-dark": ("dark", PHONE),
}


def main() -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(description="pictures of every page")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--seconds", type=float, default=20.0, help="traffic before the first picture")
    parser.add_argument("--rate", type=int, default=60, help="messages a second of each of three publishers")
    args = parser.parse_args()
    chromium = find_chromium()
    if chromium is None:
        print("chromium is not installed (Debian: apt-get install chromium)", file=sys.stderr)
        return 1
    args.directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        site = Site(Path(scratch))
        site.start()
        load = Load(site.broker.port, rate=args.rate)
        load.start()
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_FLAGS)
        try:
            time.sleep(args.seconds)
            for variant, (scheme, size) in VARIANTS.items():
                visit = Visit(browser, site, scheme=scheme, size=size, log_in=False)
                visit.open("/ui/login")
                visit.page.wait_for_selector("input[name=username]")
                take(visit, args.directory, f"login-{variant}")
                visit.log_in()
                for name, path in PAGES.items():
                    visit.open(path)
                    take(visit, args.directory, f"{name}-{variant}")
                visit.page.click("td a:has-text('feed JFK')")
                take(visit, args.directory, f"connection-{variant}")
                visit.page.keyboard.press("/")
                visit.page.keyboard.type("fl")
                take(visit, args.directory, f"palette-{variant}")
                visit.close()
        finally:
            browser.close()
            load.stop()
            site.stop()
    return 0


def take(visit: Visit, directory: Path, name: str) -> None:
    """One picture, when the page has had its first figures."""
    visit.page.wait_for_timeout(2500)
    visit.page.screenshot(path=directory / f"{name}.png")
    print(name, flush=True)


if __name__ == "__main__":
    sys.exit(main())

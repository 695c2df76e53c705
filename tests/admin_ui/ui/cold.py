"""How long the first page takes in a browser that has never seen it: ``python -m tests.admin_ui.ui.cold``.

Each run has a browser profile of its own, so nothing is cached, and a login of its own. It prints, from the
start of the navigation and in milliseconds, when the form of the login can be used, when the overview shows
its figures and charts after a reload without the cache, and the octets on the wire. ``--restart`` starts the
broker anew before each run, which then also has to read and compress the files.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.admin_ui.ui.site import CHROMIUM_FLAGS, Site, Visit, find_chromium

#: Milliseconds since the navigation began, once an element is there.
SHOWN = """(selector) => new Promise((done) => {
  const look = () => document.querySelector(selector) ? done(performance.now()) : requestAnimationFrame(look);
  look();
})"""
FORM, FIGURES = "button[type=submit]", ".u-over"


def once(site: Site, browser: object) -> tuple[float, float, int]:
    """Milliseconds to the login form and to the overview, and the octets of the latter."""
    visit = Visit(browser, site, log_in=False)
    visit.open("/ui/")
    form = float(visit.page.evaluate(SHOWN, FORM))
    visit.log_in()
    network = visit.context.new_cdp_session(visit.page)
    network.send("Network.enable")
    network.send("Network.clearBrowserCache")
    wire: list[int] = []
    network.on("Network.loadingFinished", lambda event: wire.append(int(event["encodedDataLength"])))
    visit.page.goto("about:blank")
    visit.page.goto(site.base + "/ui/", wait_until="commit")
    overview = float(visit.page.evaluate(SHOWN, FIGURES))
    visit.page.wait_for_timeout(300)
    visit.close()
    return form, overview, sum(wire)


def main() -> int:
    """Measure; returns the exit code."""
    parser = argparse.ArgumentParser(prog="cold", description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--restart", action="store_true", help="a fresh broker for each run")
    args = parser.parse_args()
    forms, overviews = [], []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=CHROMIUM_FLAGS)
        site = Site(Path(folder))
        site.start()
        try:
            for number in range(args.runs):
                if number and args.restart:
                    site.stop()
                    site.start()
                    time.sleep(0.5)
                form, overview, octets = once(site, browser)
                print(
                    f"login {form:4.0f} ms, overview {overview:4.0f} ms, {octets / 1000:.0f} kB", flush=True
                )
                forms.append(form)
                overviews.append(overview)
        finally:
            site.stop()
            browser.close()
    print(f"median: login {statistics.median(forms):.0f} ms, overview {statistics.median(overviews):.0f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Pictures of every page and some acts, to be looked at: ``python -m tests.admin_ui.ui.shots DIR``.

Starts a broker with traffic of its own, waits so long, and takes each page in light, in dark and on a phone.
Ten minutes fill the sparklines.
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

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
    "channels": "/ui/channels",
    "policies": "/ui/policies",
    "vhosts": "/ui/vhosts",
    "vhost": "/ui/vhosts/flights.eu",
    "users": "/ui/users",
    "user": "/ui/users/desk",
    "limits": "/ui/limits",
    "definitions": "/ui/definitions",
    "tokens": "/ui/tokens",
    "node": "/ui/node",
    "missing": "/ui/nothing",
}
#: What is set over the HTTP API before the first picture.
DEFINITIONS: dict[str, list[dict[str, Any]]] = {
    "vhosts": [{"name": "flights.eu", "description": "Airports of Europe", "tags": ["production"]}],
    "users": [
        {
            "name": "desk",
            "password": "desk",
            "tags": ["management", "policymaker"],
            "limits": {"max-connections": 20},
        },
        {"name": "watch", "password": "watch", "tags": ["monitoring"]},
        {"name": "feed", "password": "feed", "tags": []},
    ],
    "permissions": [
        {"user": "guest", "vhost": "flights.eu", "configure": ".*", "write": ".*", "read": ".*"},
        {"user": "desk", "vhost": "/", "configure": "^desk\\.", "write": ".*", "read": ".*"},
        {"user": "feed", "vhost": "flights.eu", "configure": "", "write": "^flights$", "read": ""},
    ],
    "topic_permissions": [
        {"user": "desk", "vhost": "/", "exchange": "flights", "write": "^UA\\.", "read": ".*"},
    ],
    "parameters": [
        {"component": "vhost-limits", "vhost": "flights.eu", "name": "limits", "value": {"max-queues": 50}},
        {
            "component": "operator_policy",
            "vhost": "/",
            "name": "a-day",
            "value": {
                "pattern": ".*",
                "apply-to": "queues",
                "priority": 0,
                "definition": {"message-ttl": 86_400_000},
            },
        },
    ],
    "policies": [
        {
            "vhost": "/",
            "name": "archive",
            "pattern": "archive$",
            "apply-to": "queues",
            "priority": 5,
            "definition": {"max-length": 200_000, "overflow": "reject-publish"},
        },
    ],
}
#: A file that the page of definitions compares with what is there.
FILE: dict[str, list[dict[str, Any]]] = {
    "users": [{"name": "board", "password": "board", "tags": []}],
    "policies": [{**DEFINITIONS["policies"][0], "definition": {"max-length": 300_000}}],
    "queues": [
        {"vhost": "/", "name": "flights.board", "durable": True, "auto_delete": False, "arguments": {}},
        {"vhost": "/", "name": "flights.united", "durable": False, "auto_delete": False, "arguments": {}},
    ],
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
        define(site)
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
                acts(visit, args.directory, variant)
                visit.open("/ui/connections")
                visit.page.click("td a:has-text('feed JFK')")
                take(visit, args.directory, f"connection-{variant}")
                visit.open("/ui/channels")
                visit.page.click("td a:has-text('newark-board')")
                take(visit, args.directory, f"channel-{variant}")
                visit.page.keyboard.press("/")
                visit.page.keyboard.type("fl")
                take(visit, args.directory, f"palette-{variant}")
                visit.close()
        finally:
            browser.close()
            load.stop()
            site.stop()
    return 0


def define(site: Site) -> None:
    """Set `DEFINITIONS`."""
    token = base64.b64encode(b"guest:guest").decode()
    request = urllib.request.Request(
        f"{site.base}/api/definitions?strict=true",
        json.dumps(DEFINITIONS).encode(),
        {"Authorization": f"Basic {token}", "Content-Type": "application/json"},
    )
    urllib.request.urlopen(request).close()


def acts(visit: Visit, directory: Path, variant: str) -> None:
    """The dialogs of some acts."""
    page = visit.page
    visit.open("/ui/queues?q=name~kennedy")
    page.check("thead input")
    take(visit, directory, f"act-select-{variant}")
    page.click("button:has-text('Declare a queue')")
    page.fill("input[name=name]", "flights.newark")
    page.uncheck("input[name=durable]")
    page.click("dialog button[type=submit]")
    take(visit, directory, f"act-declare-{variant}")
    visit.open(queue_path("flights.archive"))
    page.click("button:has-text('Get messages')")
    page.click("dialog button[type=submit]")
    take(visit, directory, f"act-get-{variant}")
    visit.open("/ui/policies")
    page.click("button:has-text('Add a policy')")
    page.fill("input[name=name]", "short")
    page.fill("input[name=pattern]", "^flights[.](kennedy|archive)")
    take(visit, directory, f"act-policy-{variant}")
    visit.open("/ui/tokens")
    page.click("button:has-text('Make a token')")
    page.fill("input[name=name]", "prometheus")
    take(visit, directory, f"act-token-{variant}")
    visit.open("/ui/definitions")
    content = json.dumps(FILE).encode()
    page.set_input_files(
        "input[type=file]", {"name": "file.json", "mimeType": "application/json", "buffer": content}
    )
    take(visit, directory, f"act-import-{variant}")


def take(visit: Visit, directory: Path, name: str) -> None:
    """One picture, when the page has had its first figures."""
    visit.page.wait_for_timeout(2500)
    visit.page.screenshot(path=directory / f"{name}.png")
    print(name, flush=True)


if __name__ == "__main__":
    sys.exit(main())

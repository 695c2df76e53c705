"""A real broker, real traffic and a real browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import sync_playwright

from tests.admin_ui.ui.load import Load
from tests.admin_ui.ui.site import CHROMIUM_FLAGS, Site, Visit, find_chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Debian's Chromium without a window.

    Not longer than the module: while it lasts, playwright's own event loop counts as running in this thread,
    and asynchronous tests could not run theirs.
    """
    chromium = find_chromium()
    if chromium is None:
        # `make test` installs it where it may (root on Debian) and names it before the run where it may not.
        pytest.skip("chromium is not installed (Debian: apt-get install chromium)")
    with sync_playwright() as started:
        found = started.chromium.launch(executable_path=chromium, args=CHROMIUM_FLAGS)
        yield found
        found.close()


@pytest.fixture(scope="module")
def site(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A broker with traffic."""
    found = Site(tmp_path_factory.mktemp("site"))
    found.start()
    load = Load(found.broker.port)
    load.start()
    yield found
    load.stop()
    found.stop()


@pytest.fixture(scope="module")
def calm(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A broker without traffic, for all tests of a module."""
    found = Site(tmp_path_factory.mktemp("calm"))
    found.start()
    yield found
    found.stop()


@pytest.fixture
def quiet_site(browser: Any, tmp_path: Path) -> Iterator[Site]:
    """A broker of the test's own, without traffic."""
    found = Site(tmp_path)
    found.start()
    yield found
    found.stop()


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Visit]]:
    """Opens pages; at the end of the test, the console must have stayed clean."""
    visits: list[Visit] = []

    def open_(site: Site, **options: Any) -> Visit:
        visits.append(Visit(browser, site, **options))
        return visits[-1]

    yield open_
    for each in visits:
        each.close()
        assert each.complaints == []

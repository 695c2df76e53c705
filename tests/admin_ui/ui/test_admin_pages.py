"""Users, virtual hosts, limits, policies and definitions: what one does on their pages."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

from tests.admin_ui.ui.site import PHONE, Site, Visit

Visits = Callable[..., Visit]
SUBMIT = "dialog button[type=submit]"


def fill(one: Visit, button: str, **fields: str) -> None:
    """Open an act, fill its fields and do it."""
    one.page.click(button)
    one.page.wait_for_selector("dialog.act")
    for name, value in fields.items():
        field = one.page.locator(f"dialog [name='{name.replace('_to', '-to')}']")
        if field.evaluate("e => e.tagName") == "SELECT":
            field.select_option(value)
        else:
            field.fill(value)
    one.page.click(SUBMIT)


def test_a_user_from_its_first_permission_to_its_end(calm: Site, visit: Visits) -> None:
    one = visit(calm)
    one.open("/ui/users")
    one.page.wait_for_selector("td a:has-text('guest')")
    fill(one, "button:has-text('Add a user')", name="ada", password="secret", again="other")
    one.page.wait_for_selector("#field-again-error:has-text('differ')")
    one.page.fill("input[name=again]", "secret")
    one.page.fill("input[name=tags]", "management, policymaker")
    one.page.click(SUBMIT)
    one.page.wait_for_selector("h1:has-text('ada')")
    one.page.wait_for_selector(".none:has-text('can enter no virtual host')")
    fill(one, "button:has-text('Give a permission')", configure="^ada(")
    one.page.wait_for_selector("#field-configure-error:has-text('not a regular expression')")
    one.expect_requests_to_fail("400")
    one.page.fill("input[name=configure]", "^ada")
    one.page.click(SUBMIT)
    one.page.wait_for_selector("section:has(#permissions) td:has-text('^ada')")
    fill(one, "button:has-text('Limit routing keys')", write="^eu")
    one.page.wait_for_selector("section:has(#topics) td:has-text('^eu')")
    fill(one, "section:has(#limits) button:has-text('Set a limit')", value="x")
    one.page.wait_for_selector("#field-value-error:has-text('whole number')")
    one.page.fill("input[name=value]", "3")
    one.page.click(SUBMIT)
    one.page.wait_for_selector("section:has(#limits) td:has-text('max-connections')")
    fill(one, "button:has-text('Set the tags')", tags="management")
    one.page.wait_for_selector(".pills:not(:has-text('policymaker'))")
    # Its tags and permission are those that count for its own pages.
    ada = visit(calm, log_in=False)
    ada.log_in("ada", "secret")
    ada.page.wait_for_selector("nav a:has-text('Policies')")
    assert not ada.page.is_visible("nav a:has-text('Users')")
    ada.open("/ui/queues")
    fill(ada, "button:has-text('Declare a queue')", name="eve")
    ada.page.wait_for_selector("#field-name-error:has-text('Access refused.')")
    ada.expect_requests_to_fail("401")
    ada.close()
    one.page.click("button:has-text('Set the password')")
    one.page.check("dialog [name=none]")
    one.page.click(SUBMIT)
    one.page.wait_for_selector(".said:has-text('ada has no password any more.')")
    fill(one, ".acts button:has-text('Delete')", confirm="ada")
    one.page.wait_for_selector(".said:has-text('User ada is deleted.')")
    one.page.wait_for_selector(".total:has-text('1 user')")


def test_a_phone_shows_what_a_user_may_and_what_a_policy_sets(calm: Site, visit: Visits) -> None:
    """Its tables have no columns for these."""
    one = visit(calm, size=PHONE)
    one.open("/ui/users/guest")
    for said in ("configure .*", "write .*", "read .*"):
        one.page.wait_for_selector(f"section:has(#permissions) td .narrow:visible:has-text('{said}')")
    one.open("/ui/users")
    one.page.wait_for_selector("td:has(a:has-text('guest')) .narrow:visible:has-text('/')")
    one.open("/ui/policies")
    fill(one, "button:has-text('Add a policy') >> nth=0", name="phone", pattern="^phone")
    one.page.click("dialog button:has-text('max-length') >> nth=0")
    one.page.fill("dialog .pair input >> nth=1", "5")
    one.page.click(SUBMIT)
    one.page.wait_for_selector("td:has-text('phone') .narrow:visible:has-text('max-length 5')")
    assert not one.overflows()
    assert one.axe() == []
    fill(one, "button[aria-label='Delete policy phone']", confirm="phone")
    one.page.wait_for_selector("h2:has-text('No policies')")


def test_a_virtual_host_with_its_limit(calm: Site, visit: Visits) -> None:
    one = visit(calm)
    one.open("/ui/vhosts")
    fill(one, "button:has-text('Add a virtual host')", name="..", description="Europe")
    one.page.wait_for_selector("section:has(#permissions) td:has-text('guest')")
    one.page.wait_for_selector("select option:text-is('..')", state="attached")  # in the side, too
    fill(one, "section:has(#limits) button:has-text('Set a limit')", limit="max-queues", value="0")
    one.page.wait_for_selector("section:has(#limits) td:has-text('max-queues')")
    one.open("/ui/queues")
    fill(one, "button:has-text('Declare a queue')", name="many", vhost="..")
    one.page.wait_for_selector("#field-name-error:has-text('is reached')")
    one.expect_requests_to_fail("400")
    one.page.keyboard.press("Escape")
    one.open("/ui/limits")
    one.page.click("button[aria-label='Remove max-queues of ..']")
    one.page.click(SUBMIT)
    one.page.wait_for_selector("p:has-text('No virtual host has a limit')")
    one.open("/ui/vhosts")
    one.page.click("td a:text-is('..')")
    fill(one, ".acts button:has-text('Delete')", confirm="..")
    one.page.wait_for_selector(".total:has-text('1 virtual host')")


def test_a_policy_shows_what_it_matches_while_it_is_typed(calm: Site, visit: Visits) -> None:
    with calm.connect() as connection:
        channel = connection.channel()
        for name in ("orders.eu", "orders.us", "audit"):
            channel.queue_declare(name, exclusive=True)
        one = visit(calm, size=PHONE)
        one.open("/ui/policies")
        one.page.click("button:has-text('Add a policy')")
        one.page.fill("input[name=name]", "short")
        one.page.fill("input[name=pattern]", "^orders.(")
        one.page.wait_for_selector(".preview:has-text('should be regular expression')")
        one.page.fill("input[name=pattern]", "^orders")
        one.page.wait_for_selector(".preview p:has-text('2 queues match.')")
        one.page.wait_for_selector(".preview p:has-text('No exchange matches.')")
        assert one.axe() == []
        one.page.click(SUBMIT)
        one.page.wait_for_selector("#field-definition-error:has-text('sets at least one key')")
        one.expect_requests_to_fail("400")
        one.page.click("button:has-text('Add another key')")
        one.page.fill("[aria-label='Name of key 1']", "max-length")
        one.page.fill("[aria-label='Value of key 1']", "5")
        one.page.click(SUBMIT)
        one.page.wait_for_selector("td:has-text('short')")
        one.page.click("button:has-text('Add an operator policy')")
        one.page.fill("input[name=pattern]", "^audit$")
        one.page.wait_for_selector(".preview p:has-text('1 queue matches.')")
        one.page.keyboard.press("Escape")
        one.page.click("button[aria-label='Change policy short']")
        one.page.fill("input[name=priority]", "7")
        one.page.click(SUBMIT)
        one.page.wait_for_selector("td:text-is('7')")
        assert not one.overflows()
        one.open("/ui/queues/%2F/orders.eu")
        one.page.wait_for_selector("#settings >> xpath=../.. >> text=from policy")
        one.open("/ui/policies")
        fill(one, "button[aria-label='Delete policy short']", confirm="short")
        one.page.wait_for_selector("h2:has-text('No policies')")


def test_an_import_shows_what_it_would_do_and_what_was_left_out(calm: Site, visit: Visits) -> None:
    with calm.connect() as connection:
        connection.channel().queue_declare("there", durable=True)
    one = visit(calm)
    one.open("/ui/definitions")
    with one.page.expect_download() as download:
        one.page.click("a:has-text('Download the file')")
    kept: Any = json.loads(download.value.path().read_text())
    assert [queue["name"] for queue in kept["queues"]] == ["there"]

    def choose(content: str) -> None:
        file = {"name": "d.json", "mimeType": "application/json", "buffer": content.encode()}
        one.page.set_input_files("input[type=file]", files=[file])

    choose("{")
    one.page.wait_for_selector("#file-error:has-text('not JSON')")
    one.expect_requests_to_fail("400")
    choose(json.dumps(kept))
    one.page.wait_for_selector(".form-done:has-text('nothing new')")
    kept["queues"][0]["durable"] = False
    for user in kept["users"]:
        user["limits"] = {"max-channels": 50_000}
    kept["queues"].append({**kept["queues"][0], "name": "new", "arguments": {"x-expires": 1 << 30}})
    kept["exchanges"].append({**kept["queues"][1], "name": "odd", "type": "x-odd", "internal": False})
    choose(json.dumps(kept))
    one.page.wait_for_selector("tr:has-text('queues') td:nth-child(2):has-text('new')")
    one.page.wait_for_selector("tr:has-text('queues') td:nth-child(4):has-text('there')")
    one.page.wait_for_selector("tr:has-text('users') td:nth-child(3):has-text('guest: limits')")
    assert one.axe() == []
    one.page.click("button:text-is('Import')")
    one.page.wait_for_selector(".import-note:has-text('1 item was left out')")
    one.page.wait_for_selector("td:has-text(\"unknown exchange type 'x-odd'\")")
    assert one.axe() == []
    one.open("/ui/queues/%2F/new")
    one.page.wait_for_selector(".arguments:has-text('x-expires')")


def test_acts_from_the_palette(calm: Site, visit: Visits) -> None:
    one = visit(calm)
    one.page.wait_for_selector("h2:has-text('Queued messages')")
    for text, title in (
        ("publish", "Publish a message"),
        ("add a pol", "Add a policy"),
        ("add a user", "Add a user"),
    ):
        one.page.keyboard.press("Control+k")
        one.page.keyboard.type(text)
        one.page.wait_for_selector(f"li[aria-selected=true]:has-text('{title}')")
        one.page.keyboard.press("Enter")
        one.page.wait_for_selector(f"dialog.act h2:has-text('{title}')")
        one.page.keyboard.press("Escape")
        one.page.wait_for_selector("dialog", state="detached")
    one.page.keyboard.press("g")
    one.page.keyboard.press("n")
    one.page.wait_for_selector("#ports")
    one.page.keyboard.press("Control+k")
    one.page.keyboard.type("definitions")
    one.page.wait_for_selector("li[aria-selected=true]:has-text('Definitions')")
    one.page.keyboard.press("Enter")
    one.page.wait_for_selector("#import")


def test_a_token_is_shown_once_and_revoked(calm: Site, visit: Visits) -> None:
    one = visit(calm, size=PHONE, scheme="dark")
    one.open("/ui/tokens")
    one.page.click("button:has-text('Make a token')")
    one.page.wait_for_selector("dialog.act")
    assert one.axe() == []
    one.page.fill("input[name=name]", "prometheus")
    one.page.select_option("select[name=tags]", "monitoring")
    one.page.click(SUBMIT)
    one.page.wait_for_selector("dialog h2:has-text('Token prometheus')")
    assert one.axe() == []
    assert not one.overflows()
    token = one.page.inner_text("dialog pre")
    headers = {"Authorization": f"Bearer {token}"}
    request = urllib.request.Request(f"{calm.base}/api/whoami", headers=headers)
    with urllib.request.urlopen(request) as answer:
        assert json.load(answer)["tags"] == ["monitoring"]
    one.page.click("button:has-text('I have it')")
    one.page.wait_for_selector("td:has-text('prometheus')")
    one.page.wait_for_selector(f"body:not(:has-text('{token}'))")
    assert one.axe() == []
    one.page.click("button[aria-label='Revoke prometheus']")
    one.page.click(SUBMIT)
    one.page.wait_for_selector("h2:has-text('No API tokens')")
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(request)


def test_the_cluster_gets_a_name_and_a_virtual_host_is_traced(calm: Site, visit: Visits) -> None:
    one = visit(calm)
    one.open("/ui/node")
    one.page.click("button:has-text('Name the cluster')")
    one.page.fill("input[name=name]", "airport")
    one.page.click(SUBMIT)
    one.page.wait_for_selector("section:has(#process) dd:has-text('airport')")
    one.page.click("button:has-text('Forget histories')")
    one.page.click(SUBMIT)
    one.page.wait_for_selector("text=The histories begin anew")
    one.open("/ui/vhosts/%2F")
    one.page.wait_for_selector("section:has(#settings) dd:has-text('off')")
    one.page.click(".acts button:has-text('Change')")
    one.page.check("input[name=tracing]")
    one.page.click(SUBMIT)
    one.page.wait_for_selector("section:has(#settings) dd:has-text('on')")
    one.page.click(".acts button:has-text('Change')")
    one.page.uncheck("input[name=tracing]")
    one.page.click(SUBMIT)
    one.page.wait_for_selector("section:has(#settings) dd:has-text('off')")


def test_charts_of_the_node_and_of_a_virtual_host(calm: Site, visit: Visits) -> None:
    with calm.connect() as connection:
        channel = connection.channel()
        channel.queue_declare("charted", exclusive=True)
        for _ in range(500):
            channel.basic_publish("", "charted", b"x" * 1000)
        one = visit(calm)
        one.open("/ui/vhosts/%2F")
        one.page.wait_for_selector("[aria-label^='Messages: ready 500, unacked 0']")
        one.page.wait_for_selector("[aria-label^='Data: from clients']")
        one.page.click("a:has-text('10 min')")
        one.page.wait_for_selector("a[aria-current]:has-text('10 min')")
        assert one.path() == "/ui/vhosts/%2F?range=10m"
        one.open("/ui/node?range=24h")
        for title in (
            "Memory: process",
            "Disk: free",
            "Descriptors: descriptors",
            "What comes and goes: connections",
        ):
            one.page.wait_for_selector(f"[aria-label^='{title}']")
        one.open("/ui/node")
        # The account of memory has what is in the queue.
        one.page.wait_for_selector("[aria-label^='Memory: process']:not([aria-label*='messages 0 B'])")
        assert one.page.locator(".plot-empty").count() == 0
        # No port for Prometheus here: it scrapes this one, with a token.
        assert f'targets: ["127.0.0.1:{calm.admin_port}"]' in one.page.inner_text(
            "section:has(#prometheus) pre"
        )
        one.page.wait_for_selector("section:has(#prometheus) a:has-text('API token')")
        assert one.axe() == []

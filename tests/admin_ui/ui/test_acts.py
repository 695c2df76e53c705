"""The acts on queues, exchanges, messages and connections: by keyboard, on a phone, refused, not offered."""

from __future__ import annotations

from collections.abc import Callable

import pika
import pytest

from tests.admin_ui.ui.site import PHONE, Site, Visit

Visits = Callable[..., Visit]
#: Buttons that change something, and the marks of rows for them.
OFFERED = "main .button:not(:text-is('Columns')), main input[type=checkbox]"


def press_to(one: Visit, name: str, *, within: str = "", most: int = 60) -> None:
    """Press Tab until the element whose text or label is ``name`` has the focus."""
    for _ in range(most):
        one.page.keyboard.press("Tab")
        found = one.page.evaluate(
            "(within) => { const e = document.activeElement; return (!within || e.closest(within)) ?"
            " (e.getAttribute('aria-label') || e.labels?.[0]?.textContent || e.textContent) : '' }",
            within,
        )
        if found.strip() == name:
            return
    raise AssertionError(f"Tab does not reach {name!r}")


def open_act(one: Visit, name: str) -> None:
    """Press the button ``name``, and wait for its dialog."""
    press_to(one, name, within="main")
    one.page.keyboard.press("Enter")
    one.page.wait_for_selector("dialog.act")


def test_by_keyboard_alone_from_a_new_queue_to_its_end(quiet_site: Site, visit: Visits) -> None:
    one = visit(quiet_site)
    keys = one.page.keyboard
    one.page.wait_for_selector("h2:has-text('Queued messages')")
    keys.press("g")
    keys.press("q")
    one.page.wait_for_selector("button:has-text('Declare a queue')")
    keys.press("n")
    one.page.wait_for_selector("input[name=name]:focus")
    keys.type("walk")
    press_to(one, "Add an argument")
    keys.press("Enter")
    one.page.wait_for_selector("[aria-label='Name of argument 1']:focus")
    keys.type("x-max-length")
    press_to(one, "Value of argument 1")
    keys.type("100")
    assert one.page.input_value("[aria-label='Kind of argument 1']") == "number"
    assert one.axe() == []
    keys.press("Enter")
    one.page.wait_for_selector("h1:has-text('walk')")
    one.page.wait_for_selector(".said:has-text('Queue walk is declared.')")
    one.page.wait_for_selector(".arguments:has-text('x-max-length')")
    open_act(one, "Bind")
    one.page.wait_for_selector("input[name=other]:focus")
    keys.type("amq.topic")
    keys.press("Tab")
    keys.type("eu.#")
    keys.press("Enter")
    one.page.wait_for_selector("section:has(#bindings) td:has-text('eu.#')")
    open_act(one, "Publish")
    press_to(one, "Payload")
    keys.type('{"flight": 1545}')
    press_to(one, "Publish")
    keys.press("Enter")
    one.page.wait_for_selector(".form-done:has-text('at least one queue has it')")
    keys.press("Escape")
    one.page.wait_for_selector(".figures div:has-text('Ready') dd:has-text('1')")
    # The key is back on the button that opened the dialog.
    assert one.page.evaluate("document.activeElement.textContent") == "Publish"
    open_act(one, "Get messages")
    keys.press("Enter")
    press_to(one, "Get")
    keys.press("Enter")
    one.page.wait_for_selector(".message pre:has-text('\"flight\": 1545')")
    assert one.axe() == []
    one.page.keyboard.press("Escape")
    one.page.wait_for_selector("dialog", state="detached")
    open_act(one, "Purge")
    keys.type("wrong")
    keys.press("Enter")
    one.page.wait_for_selector(".field-error:has-text('not the name of the queue')")
    one.page.wait_for_selector("input[name=confirm]:focus")
    keys.press("Control+a")
    keys.type("walk")
    keys.press("Enter")
    one.page.wait_for_selector(".figures div:has-text('Ready') dd:text-is('0')")
    open_act(one, "Unbind amq.topic and walk, routing key eu.#")
    press_to(one, "Unbind")
    keys.press("Enter")
    one.page.wait_for_selector("section:has(#bindings) td:has-text('eu.#')", state="detached")
    open_act(one, "Delete")
    keys.type("walk")
    keys.press("Enter")
    one.page.wait_for_selector(".said:has-text('Queue walk is deleted.')")
    one.page.wait_for_selector("h2:has-text('No queues yet')")


def test_the_brokers_words_stand_at_the_field(calm: Site, visit: Visits) -> None:
    with calm.connect() as connection:
        channel = connection.channel()
        channel.queue_declare("there", durable=True)
        one = visit(calm, size=PHONE, scheme="dark")
        one.open("/ui/queues")
        one.page.click("button:has-text('Declare a queue')")
        one.page.click("dialog button[type=submit]")
        one.page.wait_for_selector("#field-name-error:has-text('needs a value')")
        one.page.fill("input[name=name]", "there")
        one.page.uncheck("input[name=durable]")
        one.page.click("dialog button[type=submit]")
        one.page.wait_for_selector(
            "#field-durable-error:has-text(\"received 'false' but current is 'true'\")"
        )
        one.page.check("input[name=durable]")
        one.page.fill("input[name=name]", "é" * 128)
        one.page.click("dialog button[type=submit]")
        one.page.wait_for_selector("#field-name-error:has-text('has 256 octets, 255 are the most')")
        one.page.fill("input[name=name]", "new")
        one.page.click("button:has-text('Add an argument')")
        one.page.fill("[aria-label='Name of argument 1']", "x-message-ttl")
        one.page.fill("[aria-label='Value of argument 1']", "-5")
        one.page.click("dialog button[type=submit]")
        one.page.wait_for_selector("#field-arguments-error:has-text('value_negative')")
        assert not one.overflows()
        assert one.axe() == []
        one.expect_requests_to_fail("400")
        one.page.keyboard.press("Escape")
        one.open("/ui/exchanges/%2F/amq.fanout")
        one.page.click("section:has(#from) button:has-text('Bind')")
        one.page.fill("input[name=other]", "nosuch")
        one.page.click("dialog button[type=submit]")
        one.page.wait_for_selector("#field-other-error:has-text(\"no queue 'nosuch' in vhost '/'\")")
        one.expect_requests_to_fail("404")
        channel.queue_delete("there")


def test_acts_on_any_name(quiet_site: Site, visit: Visits) -> None:
    one = visit(quiet_site)
    with quiet_site.connect() as connection:
        channel = connection.channel()
        for name in ("..", "a/b ?#%", "\u202eright to left"):
            channel.queue_declare(name)
            channel.basic_publish("", name, b"x")
            one.open("/ui/queues")
            one.page.click("td a >> nth=0")
            one.page.click("button:has-text('Purge')")
            one.page.fill("input[name=confirm]", name.replace("\u202e", "\\u202e"))
            one.page.click("dialog button[type=submit]")
            one.page.wait_for_selector(".said:has-text('is purged')")
            one.page.click(".acts button:has-text('Delete')")
            one.page.fill("input[name=confirm]", name)
            one.page.click("dialog button[type=submit]")
            one.page.wait_for_selector(".said:has-text('is deleted')")
            one.page.wait_for_selector("h2:has-text('No queues yet')")


def test_a_new_exchange_its_binding_and_a_message_that_nobody_takes(calm: Site, visit: Visits) -> None:
    one = visit(calm)
    one.open("/ui/exchanges")
    one.page.click("button:has-text('Declare an exchange')")
    one.page.fill("input[name=name]", "orders")
    one.page.select_option("select[name=type]", "x-consistent-hash")
    one.page.click("dialog button[type=submit]")
    one.page.wait_for_selector("h1:has-text('orders')")
    one.page.click("button:has-text('Publish')")
    one.page.click("dialog button[type=submit]")
    one.page.wait_for_selector(".form-done:has-text('no queue took it')")
    one.page.keyboard.press("Escape")
    one.page.click("section:has(#to) button:has-text('Bind')")
    one.page.fill("input[name=other]", "amq.fanout")
    one.page.click("dialog button[type=submit]")
    one.page.wait_for_selector("section:has(#to) td a:has-text('amq.fanout')")
    one.page.click(".acts button:has-text('Delete')")
    one.page.fill("input[name=confirm]", "orders")
    one.page.click("dialog button[type=submit]")
    one.page.wait_for_selector(".said:has-text('Exchange orders is deleted.')")
    # The default and the predeclared exchanges cannot be deleted.
    one.open("/ui/exchanges/%2F/amq.topic")
    one.page.wait_for_selector(".acts button:has-text('Publish')")
    assert not one.page.is_visible("button:has-text('Delete')")


def test_a_client_gets_the_reason_for_which_its_connection_is_closed(calm: Site, visit: Visits) -> None:
    one = visit(calm)
    connection = calm.connect()
    one.open("/ui/connections")
    one.page.click("td a")
    one.page.click(".acts button:has-text('Close')")
    one.page.fill("input[name=reason]", "déménagement")
    one.page.click("dialog button[type=submit]")
    one.page.wait_for_selector(".said:has-text('is closed')")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="CONNECTION_FORCED - déménagement"):
        connection.process_data_events(60)
    one.page.wait_for_selector("h2:has-text('Nobody is connected')")


def test_a_consumer_is_closed_and_its_connection_stays(calm: Site, visit: Visits) -> None:
    one = visit(calm, size=PHONE)
    with calm.connect() as connection:
        channel = connection.channel()
        channel.queue_declare("slow", exclusive=True)
        for at in ("queue", "connection"):
            channel.basic_publish("", "slow", b"x")
            channel.basic_consume("slow", lambda *_: None, consumer_tag="hangs")
            connection.process_data_events(0.2)
            one.open("/ui/queues/%2F/slow")
            if at == "connection":
                one.page.click("section:has(#consumers) td a")
                one.page.wait_for_selector("#client")
            one.page.click("button[aria-label='Close the consumer hangs']")
            # It loses nothing, so no name has to be typed.
            one.page.wait_for_selector("dialog input[name=reason]")
            assert one.page.locator("dialog input[name=confirm]").count() == 0
            one.page.fill("input[name=reason]", "for a test")
            assert one.axe() == []
            one.page.click("dialog button[type=submit]")
            one.page.wait_for_selector(".said:has-text('went back to slow')")
            one.page.wait_for_selector("section:has(#consumers) p.none")
            assert not one.overflows()
            connection.process_data_events(0.2)
            assert channel.consumer_tags == []
            channel.queue_purge("slow")


def test_those_who_watch_see_no_buttons(calm: Site, visit: Visits) -> None:
    guest = visit(calm)
    # By the calls that the pages make: those have tests of their own.
    status = guest.page.evaluate(
        """async () => {
            const me = await (await fetch("/admin/v1/session")).json();
            const put = (path, body) => fetch(path, {method: "PUT", body: JSON.stringify(body),
                headers: {"X-CSRF-Token": me.csrf_token, "Content-Type": "application/json"}});
            await put("/api/users/watcher", {password: "watcher", tags: "monitoring"});
            const all = {configure: ".*", write: ".*", read: ".*"};
            return (await put("/api/permissions/%2F/watcher", all)).status;
        }"""
    )
    assert status in (201, 204)
    with calm.connect() as connection:
        connection.channel().queue_declare("seen", exclusive=True)
        one = visit(calm, log_in=False)
        one.log_in("watcher", "watcher")
        for path, sign in (
            ("/ui/queues", "td a:has-text('seen')"),
            ("/ui/queues/%2F/seen", "#settings"),
            ("/ui/exchanges", "td a"),
            ("/ui/exchanges/%2F/amq.topic", "#settings"),
            ("/ui/channels", "td a"),
            ("/ui/policies", "h2"),
            ("/ui/vhosts/%2F", "#settings"),
            ("/ui/limits", "#of-users"),
            ("/ui/node", "#ports"),
            ("/ui/users", "h2:has-text('not for your user')"),
            ("/ui/connections", "td a"),
        ):
            one.open(path)
            one.page.wait_for_selector(sign)
            assert one.page.locator(OFFERED).count() == 0, path
        assert not one.page.is_visible("nav a:has-text('Users')")
        one.page.click("td a")
        one.page.wait_for_selector("#client")
        assert one.page.locator(OFFERED).count() == 0


def test_many_queues_at_once_and_the_columns_that_one_wants(calm: Site, visit: Visits) -> None:
    with calm.connect() as connection:
        channel = connection.channel()
        for number in range(60):
            channel.queue_declare(f"many-{number}", arguments={"x-max-length": 10})
            channel.basic_publish("", f"many-{number}", b"12345")
        one = visit(calm)
        one.open("/ui/queues?q=name~many")
        one.page.wait_for_selector("tfoot td:has-text('All 60 queues')")
        one.page.wait_for_selector("tfoot td:text-is('300 B')")
        one.page.click("button:text-is('Columns')")
        one.page.check("dialog label:has-text('Full in') input")
        one.page.uncheck("dialog label:has-text('Unacked') input")
        assert one.axe() == []
        one.page.keyboard.press("Escape")
        one.page.wait_for_selector("td:has-text('does not grow')")
        one.page.reload()
        one.page.wait_for_selector("th:has-text('Full in')")
        assert not one.page.is_visible("th:has-text('Unacked')")
        one.page.check("[aria-label='Select all queues that match']")
        one.page.wait_for_selector(".bulk:has-text('60 queues selected')")
        assert one.axe() == []
        one.page.click(".bulk button:has-text('Purge')")
        one.page.fill("input[name=confirm]", "60")
        one.page.click("dialog button[type=submit]")
        one.page.wait_for_selector("#field-confirm-error:has-text('Type “60 queues”.')")
        one.page.fill("input[name=confirm]", "60 queues")
        one.page.click("dialog button[type=submit]")
        one.page.wait_for_selector(".said:has-text('60 queues purged.')")
        one.page.wait_for_selector("tfoot td:text-is('0 B')")
        first = one.page.locator("[aria-label='Select many-0']")
        before = first.bounding_box()
        first.check()
        one.page.wait_for_selector(".bulk:has-text('1 queue selected')")
        assert first.bounding_box() == before, "the next one is where it was"
        bar = one.page.locator(".bulk").bounding_box()
        assert bar is not None
        assert bar["y"] + bar["height"] <= one.page.viewport_size["height"], "in sight above 60 rows"
        one.page.check("[aria-label='Select many-1']")
        channel.basic_publish("", "many-1", b"x")
        connection.process_data_events(0)
        one.page.click(".bulk button:has-text('Delete')")
        one.page.fill("input[name=confirm]", "2 queues")
        one.page.check("dialog label:has-text('that are empty') input")
        one.page.click("dialog button[type=submit]")
        one.page.wait_for_selector("#field-confirm-error:has-text('1 of 2 failed')")
        one.expect_requests_to_fail("400")
        one.page.keyboard.press("Escape")
        one.page.wait_for_selector("tfoot td:has-text('All 59 queues')")
        for number in range(1, 60):
            channel.queue_delete(f"many-{number}")


def test_messages_of_several_queues_move_to_one(calm: Site, visit: Visits) -> None:
    with calm.connect() as connection:
        channel = connection.channel()
        for name in ("from-1", "from-2", "into"):
            channel.queue_declare(name, auto_delete=True)
        for name in ("from-1", "from-2", "from-2"):
            channel.basic_publish("", name, b"12345")
        one = visit(calm, size=PHONE)
        one.open("/ui/queues?q=name~from-")
        one.page.wait_for_selector("tfoot td:has-text('All 2 queues')")
        one.page.check("[aria-label='Select all queues that match']")
        one.page.click(".bulk button:has-text('Move messages')")
        assert one.axe() == []
        one.page.fill("dialog input[name=queue]", "from-2")
        one.page.click("dialog button[type=submit]")
        one.page.wait_for_selector("#field-queue-error:has-text('This queue is one of them.')")
        one.page.fill("dialog input[name=queue]", "into")
        one.page.click("dialog button[type=submit]")
        one.page.wait_for_selector(".said:has-text('3 messages of 2 queues are being moved to into.')")
        one.open("/ui/queues?q=name~into")
        one.page.wait_for_selector("td:text-is('3')")
        for name in ("from-1", "from-2", "into"):
            channel.queue_delete(name)


def test_what_needs_attention_is_mended_where_it_is_said(calm: Site, visit: Visits) -> None:
    with calm.connect() as connection:
        channel = connection.channel()
        channel.queue_declare("waits", auto_delete=True)
        channel.basic_publish("", "waits", b"x")
        one = visit(calm)
        one.page.wait_for_selector(".attention p:has-text('waits has 1 ready message and nobody')")
        assert one.axe() == []
        first = one.page.evaluate("document.querySelector('main section').innerText")
        assert first.startswith("Needs attention")
        one.page.click(".attention button:has-text('Purge')")
        one.page.fill("input[name=confirm]", "waits")
        one.page.click("dialog button[type=submit]")
        one.page.wait_for_selector(".said:has-text('waits')")
        # Of the virtual host alone: what else runs on the machine may fill the disk of the node.
        one.open("/ui/?vhost=%2F")
        one.page.wait_for_selector(".all-well:has-text('Nothing needs attention')")

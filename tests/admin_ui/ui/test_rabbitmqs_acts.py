"""What one does on RabbitMQ's pages and no other test does on ours: each is a form or button of theirs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pika

from tests.admin_ui.ui.site import Site, Visit
from tests.admin_ui.ui.test_admin_pages import SUBMIT, fill

Visits = Callable[..., Visit]


def add_pair(one: Visit, table: str, name: str, kind: str, value: str) -> None:
    """Add a line to a table of names and values in the dialog."""
    one.page.click(f"dialog button:has-text('Add a{table}')")
    word = table.rsplit(maxsplit=1)[-1]
    one.page.fill(f"[aria-label='Name of {word} 1']", name)
    one.page.select_option(f"[aria-label='Kind of {word} 1']", kind)
    one.page.fill(f"[aria-label='Value of {word} 1']", value)


def test_permissions_and_limits_are_changed_and_removed(calm: Site, visit: Visits) -> None:
    one = visit(calm)
    one.open("/ui/users")
    fill(one, "button:has-text('Add a user')", name="bob", password="secret", again="secret")
    one.page.wait_for_selector("h1:has-text('bob')")
    fill(one, "button:has-text('Give a permission')", configure="^bob")
    fill(one, "button[aria-label='Change the permission for /']", configure="^ann")
    one.page.wait_for_selector("section:has(#permissions) td:has-text('^ann')")
    fill(one, "button:has-text('Limit routing keys')", write="^eu")
    fill(one, "button[aria-label='Change the topic permission for amq.topic in /']", write="^us")
    one.page.wait_for_selector("section:has(#topics) td:has-text('^us')")
    fill(one, "button[aria-label='Remove the topic permission for amq.topic in /']")
    one.page.wait_for_selector("section:has(#topics) p:has-text('Every routing key is allowed')")
    fill(one, "button[aria-label='Remove the permission for /']")
    one.page.wait_for_selector(".none:has-text('can enter no virtual host')")
    one.open("/ui/vhosts/%2F")
    fill(one, "button:has-text('Let a user in')")
    one.page.wait_for_selector("section:has(#permissions) td:has-text('bob')")
    fill(one, "button[aria-label='Remove the permission for bob']")
    one.page.wait_for_selector("section:has(#permissions) td:has-text('bob')", state="detached")
    one.open("/ui/limits")
    fill(one, "button[aria-label='Set a limit of a user']", name="bob", value="5")
    fill(one, "button[aria-label='Change max-connections of bob']", value="6")
    one.page.wait_for_selector("td:text-is('6')")
    fill(one, "button[aria-label='Remove max-connections of bob']")
    one.page.wait_for_selector("p:has-text('No user has a limit')")


def test_a_virtual_host_is_described_anew(calm: Site, visit: Visits) -> None:
    one = visit(calm)
    one.open("/ui/vhosts")
    fill(one, "button:has-text('Add a virtual host')", name="eu", description="Europe", tags="a, b")
    one.page.wait_for_selector("h1:has-text('eu')")
    fill(one, ".acts button:has-text('Change')", description="Asia", default_queue_type="quorum")
    one.page.wait_for_selector("section:has(#settings) dd:has-text('quorum')")
    assert one.page.is_visible("text=Asia")
    fill(one, ".acts button:has-text('Delete')", confirm="eu")
    one.page.wait_for_selector(".total:has-text('1 virtual host')")


def test_an_operator_policy_from_its_beginning_to_its_end(calm: Site, visit: Visits) -> None:
    one = visit(calm)
    one.open("/ui/policies")
    one.page.click("button:has-text('Add an operator policy') >> nth=0")
    one.page.fill("input[name=name]", "short")
    one.page.fill("input[name=pattern]", "^short")
    add_pair(one, "nother key", "max-length", "number", "5")
    one.page.click(SUBMIT)
    one.page.wait_for_selector("td:has-text('short') >> text=operator")
    fill(one, "button[aria-label='Delete policy short']", confirm="short")
    one.page.wait_for_selector("h2:has-text('No policies')")


def test_binary_with_headers_is_published_looked_at_and_rejected(calm: Site, visit: Visits) -> None:
    with calm.connect() as connection:
        channel = connection.channel()
        channel.queue_declare("letters")
        channel.queue_declare(
            "jobs", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "letters"}
        )
        channel.exchange_declare("inner", "headers")
        one = visit(calm)
        one.open("/ui/exchanges/%2F/inner")
        one.page.click("section:has(#from) button:has-text('Bind')")
        one.page.fill("input[name=other]", "jobs")
        add_pair(one, "n argument", "flight", "number", "1545")
        one.page.click(SUBMIT)
        one.page.wait_for_selector("section:has(#from) td:has-text('flight 1545')")
        one.page.click(".acts button:has-text('Publish')")
        one.page.fill("textarea[name=payload]", "AP8=")
        one.page.select_option("select[name=payload_encoding]", "base64")
        add_pair(one, " header", "flight", "number", "1545")
        one.page.click(SUBMIT)
        one.page.wait_for_selector(".form-done:has-text('at least one queue has it')")
        one.open("/ui/queues/%2F/jobs")
        one.page.click("button:has-text('Get messages')")
        one.page.select_option("select[name=encoding]", "base64")
        one.page.click(SUBMIT)
        one.page.wait_for_selector(".message pre:has-text('AP8=')")
        one.page.keyboard.press("Escape")
        fill(one, "button:has-text('Get messages')", ackmode="reject_requeue_false")
        one.page.fill("input[name=confirm]", "jobs")
        one.page.click(SUBMIT)
        one.page.wait_for_selector(".message pre")
        method, properties, body = channel.basic_get("letters", auto_ack=True)
        assert body == b"\x00\xff"
        assert properties.headers["flight"] == 1545
        assert properties.headers["x-death"][0]["reason"] == "rejected"
        assert method.redelivered is False
        for queue in ("jobs", "letters"):
            channel.queue_delete(queue)
        channel.exchange_delete("inner")


def test_definitions_of_one_virtual_host_go_to_a_file_and_come_back(
    calm: Site, visit: Visits, tmp_path: Path
) -> None:
    with calm.connect() as connection:
        connection.channel().queue_declare("kept", durable=True)
        one = visit(calm)
        one.open("/ui/definitions")
        one.page.select_option("select[name=of]", "/")
        with one.page.expect_download() as download:
            one.page.click("a:has-text('Download the file')")
        download.value.save_as(tmp_path / "file.json")
        found: dict[str, Any] = json.loads((tmp_path / "file.json").read_text())
        assert [queue["name"] for queue in found["queues"]] == ["kept"]
        assert "users" not in found
        connection.channel().queue_delete("kept")
        one.page.set_input_files("input[type=file]", tmp_path / "file.json")
        one.page.wait_for_selector("text=1 difference to import")
        one.page.click("button:text-is('Import')")
        one.page.wait_for_selector("text=all of them")
        connection.channel().queue_delete("kept", if_empty=True)


def test_what_a_queue_weighs_and_its_consumers_can_take(calm: Site, visit: Visits) -> None:
    """Its page says what RabbitMQ's says, and the list its limit."""
    with calm.connect() as connection:
        channel = connection.channel()
        channel.queue_declare("slow", arguments={"x-max-length": 7000})
        channel.basic_qos(prefetch_count=1)
        channel.basic_consume("slow", lambda *_: None)
        for _ in range(3):
            channel.basic_publish("", "slow", b"0123456789", pika.BasicProperties(delivery_mode=1))
        one = visit(calm)
        one.open("/ui/queues/%2F/slow")
        one.page.wait_for_selector("section:has(#settings) dd:has-text('30 B, of them 20 B ready')")
        one.page.wait_for_selector("section:has(#settings) dd:has-text('% of the last seconds')")
        one.open("/ui/queues")
        one.page.wait_for_selector("td:has(a:text-is('slow')) >> text=at most 7,000")
        channel.queue_delete("slow")

"""A consumer that hangs beside one that works stands on the overview, and is closed there."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from amqp_router.ctl.client import Client, by_file
from amqp_router.ctl.node import sentence
from tests.admin_ui.ui.site import Site, Visit
from tests.brokers import ENTRY, RouterProcess

Visits = Callable[..., Visit]
#: Ten seconds count as a minute.
SOONER = "import admin_ui.live.holders; admin_ui.live.holders.STUCK_TICKS = 2; " + ENTRY
PATIENCE_S = 120.0


def test_it_is_named_and_closed(tmp_path: Path, visit: Visits) -> None:
    site = Site(tmp_path)
    site.broker = RouterProcess(tmp_path, entry=SOONER)
    site.admin_port = site.broker.admin_port
    site.start()
    try:
        with site.connect() as connection:
            channel = connection.channel()
            channel.queue_declare("emails", auto_delete=True)
            channel.basic_consume("emails", lambda *_: None, auto_ack=True)
            hangs = connection.channel()
            hangs.basic_qos(prefetch_count=7)
            hangs.basic_consume("emails", lambda *_: None, consumer_tag="hangs")
            one = visit(site)
            finding = one.page.locator(".attention li:has-text('holds 7 unacked messages of queue emails')")
            end = time.monotonic() + PATIENCE_S
            while not finding.count():
                assert time.monotonic() < end
                for _ in range(20):
                    channel.basic_publish("", "emails", b"x")
                connection.process_data_events(0.2)
            text = finding.inner_text()
            assert "has acked none for" in text
            assert "while the other consumers finished" in text
            assert "It hangs, or has a long job." in text
            assert one.axe() == []
            [found] = Client(by_file(site.broker.data_dir)).get("/admin/v1/attention?vhost=/")["findings"]
            assert "ctl close_consumer emails hangs" in sentence(found)
            finding.get_by_role("button", name="Close the consumer").click()
            one.page.get_by_role("button", name="Close it").click()
            one.page.wait_for_selector(".said:has-text('7 messages went back to emails.')")
            one.close()
    finally:
        site.stop()

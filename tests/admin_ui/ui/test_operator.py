"""A new operator's seven tasks, in a broker full of other things, by what the pages show and nothing else.

Each begins at the overview. What is pressed and filled is found by its role and visible label, as a person
or a screen reader finds it. Every click, choice and field filled is an act; a task may take so many and no
more. `NewOperator.seconds` is what a person needs for them: 1.5 s for a click, 0.3 s for a key, and 2 s to
read what came after each; a minute is enough for any task. ``pytest -rP`` shows acts and seconds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.admin_ui.ui.mess import HELD, STUCK, Mess
from tests.admin_ui.ui.site import PHONE, WIDE, Site, Visit

Visits = Callable[..., Visit]
DEFINITIONS = Path(__file__).parent.parent / "rabbitmq_definitions.json"
CLICK_S, KEY_S, READ_S = 1.5, 0.3, 2.0
#: How people see the pages: wide and light, and in the dark on a phone.
EYES = pytest.mark.parametrize(("size", "scheme"), [(WIDE, "light"), (PHONE, "dark")], ids=["wide", "phone"])


@pytest.fixture(scope="module")
def mess(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mess]:
    site = Site(tmp_path_factory.mktemp("mess"))
    site.start()
    found = Mess(site)
    found.start()
    yield found
    found.stop()
    site.stop()


class NewOperator:
    """Counts what they do. ``within`` is the dialog if one is open, otherwise the page."""

    def __init__(self, visit: Visit) -> None:
        self.page = visit.page
        self.visit = visit
        self.acts = 0
        self.seconds = READ_S
        visit.open("/ui/")
        self.page.get_by_role("heading", name="Needs attention").wait_for()

    @property
    def within(self) -> Any:
        dialog = self.page.get_by_role("dialog")
        return dialog.last if dialog.count() else self.page

    def press(self, name: str, role: str = "button", *, at: int = 0) -> None:
        """A button or link of this label, or of one that begins with it: which row it is for may follow."""
        found = self.within.get_by_role(role, name=re.compile(rf"^{re.escape(name)}(: |$)"))
        found.nth(at).click()
        self._did(CLICK_S)

    def go(self, page: str) -> None:
        """By the navigation; on a phone most of it is in the menu."""
        link = self.page.get_by_role("link", name=page, exact=True).first
        if not link.is_visible():
            self.press("Menu")
        self.press(page, "link")

    def fill(self, label: str, text: str) -> None:
        """The field of this label, or whose label begins with it."""
        self.within.get_by_label(re.compile(f"^{re.escape(label)}")).first.fill(text)
        self._did(CLICK_S + len(text) * KEY_S, reads=False)

    def choose(self, label: str, option: str) -> None:
        self.within.get_by_label(label, exact=True).select_option(label=option)
        self._did(2 * CLICK_S)

    def sees(self, text: str) -> None:
        """It is there, and not hidden."""
        self.page.get_by_text(text).filter(visible=True).first.wait_for()

    def took(self, acts: int) -> None:
        """The task is done."""
        print(f"{self.acts} acts, {self.seconds:.0f} s")
        assert self.acts <= acts, f"{self.acts} acts"
        assert self.seconds < 60
        assert not self.visit.overflows()

    def _did(self, seconds: float, *, reads: bool = True) -> None:
        self.acts += 1
        self.seconds += seconds + (READ_S if reads else 0)


@EYES
def test_a_user_with_rights_on_one_virtual_host(mess: Mess, visit: Visits, size: Any, scheme: str) -> None:
    one = NewOperator(visit(mess.site, size=size, scheme=scheme))
    name = f"anna-{scheme}"
    one.go("Users")
    one.press("Add a user")
    one.fill("Name", name)
    one.fill("Password", "secret")
    one.fill("Password again", "secret")
    one.choose("Virtual host", "shop")
    one.press("Add")
    one.sees(f"User {name} is added, with all permissions in shop.")
    one.took(8)
    permission = mess.api("GET", f"users/{name}/permissions")
    assert permission == [{"user": name, "vhost": "shop", "configure": ".*", "write": ".*", "read": ".*"}]


@EYES
def test_a_policy(mess: Mess, visit: Visits, size: Any, scheme: str) -> None:
    one = NewOperator(visit(mess.site, size=size, scheme=scheme))
    one.go("Policies")
    one.press("Add a policy")
    one.fill("Name", f"a-day-{scheme}")
    one.choose("Virtual host", "shop")
    one.fill("Pattern", "^invoices")
    one.sees("2 queues")
    one.press("message-ttl")
    one.fill("Value of key 1", "86400000")
    one.press("Add")
    one.sees(f"Policy a-day-{scheme} is set.")
    one.took(9)
    policy = mess.api("GET", f"policies/shop/a-day-{scheme}")
    assert (policy["pattern"], policy["definition"]) == ("^invoices", {"message-ttl": 86_400_000})


def test_what_is_wrong_with_a_policy_is_said_in_words(mess: Mess, visit: Visits) -> None:
    one = NewOperator(visit(mess.site))
    one.go("Policies")
    one.press("Add a policy")
    one.fill("Name", "wrong")
    one.press("Add")
    one.sees("A policy sets at least one key.")
    one.press("Add another key")
    one.fill("Name of key 1", "message-tttl")
    one.fill("Value of key 1", "60000")
    one.press("Add")
    one.sees("“message-tttl”: policies have no such key.")
    # The kind follows the name, also of a key that has a value already.
    one.fill("Name of key 1", "message-ttl")
    one.fill("Value of key 1", "soon")
    one.press("Add")
    one.sees("“soon” is not a number")
    one.visit.expect_requests_to_fail("400")


@EYES
def test_purge(mess: Mess, visit: Visits, size: Any, scheme: str) -> None:
    queue = {"light": "dead-letters", "dark": "reports.nightly"}[scheme]
    one = NewOperator(visit(mess.site, size=size, scheme=scheme))
    one.sees("ready messages and nobody has consumed for")
    one.go("Queues")
    one.press(queue, "link")
    one.press("Purge")
    one.fill("Type the name of the queue to go on", queue)
    one.press("Purge")
    one.sees(f"Queue {queue} is purged.")
    one.took(5)
    assert mess.api("GET", f"queues/%2F/{queue}")["messages"] == 0


def test_purge_where_it_is_said(mess: Mess, visit: Visits) -> None:
    one = NewOperator(visit(mess.site))
    one.press("Purge: load-test")
    one.fill("Type the name of the queue to go on", "load-test")
    one.press("Purge")
    one.sees("Queue load-test is purged.")
    one.took(3)


@EYES
def test_publish_and_get(mess: Mess, visit: Visits, size: Any, scheme: str) -> None:
    one = NewOperator(visit(mess.site, size=size, scheme=scheme))
    one.go("Queues")
    one.press("old.orders", "link")
    one.press("Publish")
    one.fill("Payload", f"hello {scheme}")
    one.press("Publish")
    one.sees("Published: at least one queue has it.")
    one.press("Close", at=-1)
    one.press("Get messages")
    one.fill("How many", "100")
    one.press("Get")
    one.sees(f"hello {scheme}")
    one.took(9)


@EYES
def test_definitions_of_rabbitmq(mess: Mess, visit: Visits, size: Any, scheme: str, tmp_path: Path) -> None:
    content = json.loads(DEFINITIONS.read_text())
    content["vhosts"].append({"name": f"imported-{scheme}"})
    content["users"] = [user for user in content["users"] if user["name"] != "guest"]
    file = tmp_path / "rabbit_definitions.json"
    file.write_text(json.dumps(content))
    one = NewOperator(visit(mess.site, size=size, scheme=scheme))
    one.go("Definitions")
    one.page.get_by_label("File with definitions").set_input_files(file)
    one._did(3 * CLICK_S)
    one.sees("to import, listed below.")
    heads = "(all) => all.filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.innerText)"
    assert one.page.eval_on_selector_all("th", heads) == []
    one.press("Import")
    one.sees("The definitions are imported")
    one.sees("were left out")  # streams, and why
    one.took(4)
    assert mess.api("GET", f"vhosts/imported-{scheme}")["name"] == f"imported-{scheme}"


@EYES
def test_what_prometheus_needs(mess: Mess, visit: Visits, size: Any, scheme: str) -> None:
    one = NewOperator(visit(mess.site, size=size, scheme=scheme))
    one.press("What it needs", "link")
    one.page.get_by_role("heading", name="Prometheus").wait_for()
    one.page.wait_for_function(
        "document.getElementById('prometheus').getBoundingClientRect().top < innerHeight"
    )
    one.press("Copy")
    one.took(2)
    # Found by its name, too.
    one.page.keyboard.press("Control+k")
    one.page.get_by_role("combobox", name="Part of a name").fill("prometh")
    one.page.get_by_role("option", name="Prometheus: what it needs").click()
    assert one.visit.path() == "/ui/node#prometheus"


def test_find_the_stuck_consumer_among_others_of_its_queue(mess: Mess, visit: Visits) -> None:
    """It need not stop the queue: others may do its work, so that nothing is said in the first minute."""
    with mess.site.connect() as connection:
        channel = connection.channel()
        channel.queue_declare("shared", auto_delete=True)
        channel.basic_qos(prefetch_count=50)
        for tag in ("quick-1", "hangs", "quick-2"):
            channel.basic_consume("shared", lambda *_: None, consumer_tag=tag, auto_ack=tag != "hangs")
        for _ in range(60):
            channel.basic_publish("", "shared", b"x")
        connection.process_data_events(1)
        one = NewOperator(visit(mess.site))
        one.go("Queues")
        one.press("shared", "link")
        first = one.page.get_by_role("table", name="Consumers").get_by_role("row").nth(1)
        first.get_by_role("cell", name="hangs", exact=True).wait_for()
        first.get_by_role("cell", name="20", exact=True).wait_for()
        one.press("Close the consumer hangs")
        one.press("Close it")
        one.sees("20 messages went back to shared.")
        one.took(4)
        one.visit.close()  # before the queue goes with the connection: the page asks for its bindings


# The last one, because only after a minute without an acknowledgement a queue is called stuck.
@EYES
def test_find_the_stuck_consumer_and_close_it(mess: Mess, visit: Visits, size: Any, scheme: str) -> None:
    queue, client = list(STUCK.items())[scheme == "dark"]
    one = NewOperator(visit(mess.site, size=size, scheme=scheme))
    one.page.set_default_timeout(90_000)
    one.sees(f"{client}")
    one.sees(f"holds {HELD} unacked messages and has acked none for")
    one.press(f"Close the consumer: {queue}")
    one.press("Close it")
    one.sees(f"{HELD} messages went back to {queue}.")
    one.took(2)

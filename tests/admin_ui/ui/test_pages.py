"""Every page in Chromium: clean console under the policy, in both themes, on a phone, by keyboard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import pytest

from tests.admin_ui.ui.site import PATIENCE_MS, PHONE, WIDE, Site, Visit, queue_path

Visits = Callable[..., Visit]

#: Address, and what must be seen there.
PAGES = [
    ("/ui/", "h2:has-text('Queued messages')"),
    ("/ui/?range=10m", "a[aria-current]:has-text('10 min')"),
    ("/ui/?vhost=%2F&range=1h", "a[aria-current]:has-text('1 h')"),
    ("/ui/queues", "td a:has-text('flights.newark')"),
    (queue_path("flights.newark"), "td:has-text('*.EWR.#')"),
    ("/ui/exchanges", "td a:has-text('flights.kennedy')"),
    ("/ui/exchanges/%2F/flights", "td:has-text('*.JFK.*')"),
    ("/ui/exchanges/%2F/amq.default", ".note:has-text('default exchange')"),
    ("/ui/connections", "td a:has-text('newark-board')"),
    ("/ui/nothing", "h2:has-text('no such page')"),
    (queue_path("gone"), "h2:has-text('no queue of this name')"),
]
ADMINISTRATION = [
    ("/ui/channels", "td a:has-text('newark-board (1)')"),
    ("/ui/channels/gone", "h2:has-text('no channel of this name')"),
    ("/ui/policies", "h2:has-text('No policies')"),
    ("/ui/vhosts", "td a:has-text('/')"),
    ("/ui/vhosts/%2F", "section:has(#permissions) td:has-text('guest')"),
    ("/ui/users", "td a:has-text('guest')"),
    ("/ui/users/guest", "section:has(#permissions) td:has-text('/')"),
    ("/ui/users/gone", "h2:has-text('no user of this name')"),
    ("/ui/limits", "p:has-text('No user has a limit')"),
    ("/ui/tokens", "h2:has-text('No API tokens')"),
    ("/ui/definitions", "a:has-text('Download the file')"),
    ("/ui/node", "section:has(#memory) td:has-text('Messages in queues')"),
]
NOT_THERE = "net::ERR_(CONNECTION_REFUSED|INCOMPLETE_CHUNKED|CONNECTION_RESET|EMPTY_RESP)"
TRANSFERRED = """performance.getEntriesByType("resource")
    .filter((entry) => entry.name.includes("/static/")).map((entry) => entry.transferSize)"""
#: The button says "Wait" for a second, which a look now and then may miss.
NOTE_WAITS = """() => new MutationObserver(() => {
    window.waited ||= document.querySelector("button[type=submit]")?.textContent.includes("Wait");
}).observe(document.body, {subtree: true, childList: true, characterData: true})"""
CONNECTION = "h2:has-text('What the client says of itself')"


@pytest.mark.parametrize(
    ("scheme", "size"), [("light", WIDE), ("dark", WIDE), ("light", PHONE)], ids=["light", "dark", "phone"]
)
def test_every_page(site: Site, visit: Visits, scheme: str, size: tuple[int, int]) -> None:
    one = visit(site, scheme=scheme, size=size)
    faults = []
    # The dark theme differs in colours alone.
    only = ["color-contrast", "link-in-text-block"] if scheme == "dark" else None

    def look(path: str, sign: str, *, axe: bool = True) -> None:
        one.page.wait_for_selector(sign)
        if axe:
            faults.extend(f"{path}: {fault}" for fault in one.axe(only))
        if one.overflows():
            faults.append(f"{path}: wider than the window")
        if one.page.evaluate(
            "[...document.querySelectorAll('[style]')].some((e) => e.closest('td, .card-head'))"
        ):
            faults.append(f"{path}: styles in attributes")

    for path, sign in PAGES:
        one.open(path)
        look(path, sign)
    for path, sign in ADMINISTRATION:
        one.open(path)
        # On a phone they differ in width alone.
        look(path, sign, axe=size != PHONE)
    one.open("/ui/connections")
    one.page.click("td a:has-text('feed JFK')")
    look("connection", CONNECTION)
    one.page.click("section:has(#channels) td a")
    look("channel", "section:has(#facts) a:has-text('feed JFK')")
    one.page.keyboard.press("/")
    one.page.keyboard.type("fl")
    look("palette", "li[role=option]:has-text('flights.newark')")
    one.page.keyboard.press("Escape")
    one.page.keyboard.press("?")
    look("help", "dialog :text('Keys')")
    assert faults == [], "\n".join(faults)


def test_dark_on_a_phone_and_a_menu(site: Site, visit: Visits) -> None:
    one = visit(site, scheme="dark", size=PHONE)
    assert one.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(13, 16, 21)"
    one.page.wait_for_selector("h2:has-text('Queued messages')")
    one.page.click("button[aria-label=Menu]")
    one.page.click("button:has-text('Theme: system')")
    one.page.click("button:has-text('Theme: light')")  # now it says dark
    one.page.click("button:has-text('Theme: dark')")
    assert one.axe() == []
    one.page.click(".pages a:has-text('Queues')")
    one.page.wait_for_selector("td a:has-text('flights.newark')")
    assert not one.overflows()


def test_login(site: Site, visit: Visits) -> None:
    one = visit(site, log_in=False)
    one.open("/ui/queues?q=ready:>0")
    one.page.wait_for_selector("input[name=username]")
    assert one.axe() == []
    one.page.keyboard.type("guest")
    one.page.keyboard.press("Tab")
    one.page.keyboard.type("wrong")
    one.page.keyboard.press("Enter")
    one.page.wait_for_selector("[role=alert] :text('User or password is wrong.')")
    one.expect_requests_to_fail("401")
    one.page.keyboard.type("guest")  # the wrong password is selected
    one.page.keyboard.press("Enter")
    one.page.wait_for_selector("td a:has-text('flights.archive')")
    assert unquote(one.path()) == "/ui/queues?q=ready:>0"
    cookies = one.context.cookies()
    assert [(cookie["httpOnly"], cookie["sameSite"]) for cookie in cookies] == [(True, "Strict")]
    assert one.page.evaluate("[document.cookie, localStorage.length, sessionStorage.length]") == ["", 0, 0]
    one.page.click("button:has-text('Log out')")
    one.page.wait_for_selector("input[name=username]")
    one.open("/ui/queues")
    one.page.wait_for_selector("input[name=username]")


def test_a_virtual_host_that_is_not_there(site: Site, visit: Visits) -> None:
    one = visit(site)
    one.open("/ui/?vhost=nosuch")
    one.page.wait_for_selector("h2:has-text('There is no virtual host of this name')")
    assert one.page.input_value("select") == "nosuch"
    one.page.click("main a:has-text('All virtual hosts')")
    one.page.wait_for_selector("h2:has-text('Queued messages')")
    assert one.page.input_value("select") == ""


def test_a_session_that_ended(site: Site, visit: Visits) -> None:
    one = visit(site)
    one.open("/ui/queues?q=name~flights")
    one.page.wait_for_selector("td a")
    one.context.clear_cookies()
    one.page.click("nav.pages a:has-text('Exchanges')")
    one.page.wait_for_selector("[role=alert] :text('The session has ended')")
    one.expect_requests_to_fail("401")
    one.page.fill("input[name=username]", "guest")
    one.page.fill("input[name=password]", "guest")
    one.page.keyboard.press("Enter")
    one.page.wait_for_selector("td a:has-text('flights.kennedy')")
    assert one.path() == "/ui/exchanges"


def test_too_many_wrong_passwords(site: Site, visit: Visits) -> None:
    one = visit(site, log_in=False)
    one.open("/ui/login")
    one.page.evaluate(NOTE_WAITS)
    answers = []
    # Three guesses are free. The next has to wait for a second, unless it comes later than that.
    while 429 not in answers:
        one.page.fill("input[name=username]", "mallory")
        one.page.fill("input[name=password]", f"guess {len(answers)}")
        with one.page.expect_response("**/session") as answer:
            one.page.click("button[type=submit]:enabled")
        answers.append(answer.value.status)
    assert len(answers) > 3
    one.page.wait_for_function("window.waited")
    one.expect_requests_to_fail("401|429")
    one.page.wait_for_selector("button[type=submit]:has-text('Log in'):enabled")


def test_the_login_does_not_wait_for_the_first_frame(site: Site, visit: Visits) -> None:
    one = visit(site, log_in=False)
    # A browser that has much to do paints late; the answer that nobody is logged in comes before.
    one.context.add_init_script("window.requestAnimationFrame = () => 0")
    one.log_in()


def test_from_login_to_a_queue_by_keyboard(site: Site, visit: Visits) -> None:
    one = visit(site, log_in=False)
    one.open("/ui/")
    one.page.wait_for_selector("input[name=username]:focus")
    keyboard = one.page.keyboard
    for keys in ("guest", "Tab", "guest", "Enter"):
        keyboard.press(keys) if keys in ("Tab", "Enter") else keyboard.type(keys)
    one.page.wait_for_selector("h2:has-text('Queued messages')")
    keyboard.press("/")
    keyboard.type("feed jfk")
    one.page.wait_for_selector("li[aria-selected=true]:has-text('feed JFK')")
    for _ in "feed jfk":
        keyboard.press("Backspace")
    keyboard.type("s.NEWARK")
    one.page.wait_for_selector("li[aria-selected=true]:has-text('flights.newark')")
    keyboard.press("Enter")
    one.page.wait_for_selector("h1:has-text('flights.newark')")
    assert one.path() == queue_path("flights.newark")
    keyboard.press("g")
    keyboard.press("e")
    one.page.wait_for_selector("td a:has-text('flights.kennedy')")
    keyboard.press("f")
    keyboard.type("type:headers")
    one.page.wait_for_selector(".total:has-text('of')")
    keyboard.press("Tab")
    for _ in range(30):
        if one.page.evaluate("document.activeElement.textContent") == "flights.by-headers":
            break
        keyboard.press("Tab")
        outline = one.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", one.page.evaluate("document.activeElement.outerHTML")
    keyboard.press("Enter")
    one.page.wait_for_selector("h1:has-text('flights.by-headers')")
    one.page.go_back()
    one.page.wait_for_selector(".total:has-text('of')")
    assert one.page.input_value("#query") == "type:headers"


def test_filter_sort_and_range_stand_in_the_address(site: Site, visit: Visits) -> None:
    one = visit(site)
    one.open("/ui/queues")
    one.page.click("th button:has-text('Ready')")
    one.page.fill("#query", "name~kennedy")
    one.page.wait_for_selector(".total:has-text('2 of ')")
    assert unquote(one.path()) == "/ui/queues?sort=-ready&q=name~kennedy"
    one.page.wait_for_selector("th[aria-sort=descending]:has-text('Ready')")
    first = "tbody tr:first-child td.first"
    assert one.page.text_content(first).strip() == "flights.kennedy-2"
    one.page.reload()
    one.page.wait_for_selector(first)
    assert one.page.text_content(first).strip() == "flights.kennedy-2"
    assert one.page.input_value("#query") == "name~kennedy"
    one.page.fill("#query", "colour:red")
    one.page.wait_for_selector(".problem:has-text('no field “colour”')")
    one.page.click("th button:has-text('Consumers')")
    one.open(queue_path("flights.newark"))
    one.page.click(".segments a:has-text('1 h')")
    assert one.path().endswith("?range=1h")
    one.page.click("button:has-text('redeliver')")
    assert one.page.get_attribute("button:has-text('redeliver')", "aria-pressed") == "false"


def test_keys_of_the_filter_and_of_the_palette(site: Site, visit: Visits) -> None:
    one = visit(site)
    one.open("/ui/queues")
    one.page.wait_for_selector("td a")
    one.page.focus("#query")
    one.page.keyboard.press("Control+k")  # in a text field, too
    one.page.wait_for_selector("dialog.palette")
    one.page.keyboard.press("Escape")
    one.page.fill("#query", "newark")
    one.page.press("#query", "Enter")
    one.page.wait_for_selector("h1:has-text('flights.newark')")
    one.page.go_back()
    assert unquote(one.path()) == "/ui/queues?q=newark"


def test_the_palette_ranks_names_and_says_when_the_broker_is_away(quiet_site: Site, visit: Visits) -> None:
    with quiet_site.connect() as connection:
        channel = connection.channel()
        for name in ("queues", "queues.eu", *[f"more-queues-{number}" for number in range(60)]):
            channel.queue_declare(name, durable=True)
    one = visit(quiet_site)
    one.page.wait_for_selector("h2:has-text('Queued messages')")
    one.page.keyboard.press("/")
    one.page.keyboard.type("queues")
    one.page.wait_for_selector("li[role=option]:has-text('queues.eu')")
    kinds = one.page.eval_on_selector_all(
        "li[role=option]", "all => all.slice(0, 3).map((one) => one.innerText)"
    )
    assert [text.split("\n")[0] for text in kinds] == ["queues", "Queues", "queues.eu"]
    one.page.wait_for_selector(".palette-none:has-text('further names match')")
    quiet_site.stop()
    one.page.keyboard.type(".e")
    one.page.wait_for_selector(".palette-none[role=alert]:has-text('does not answer')")
    assert not one.page.is_visible(".palette-none:has-text('Nothing has')")
    one.expect_requests_to_fail(NOT_THERE, later_too=True)


def test_many_tabs_share_one_stream(quiet_site: Site, visit: Visits) -> None:
    """A browser opens six connections to a server at most; all of the tabs are live and load."""
    with quiet_site.connect() as connection:
        channel = connection.channel()
        channel.queue_declare("orders", durable=True)
        one = visit(quiet_site)
        tabs = [one.page, *[one.context.new_page() for _ in range(13)]]
        for number, tab in enumerate(tabs):
            tab.set_default_timeout(PATIENCE_MS)
            tab.goto(quiet_site.base + ("/ui/queues", "/ui/", queue_path("orders"))[number % 3])
            tab.wait_for_selector("main td, main .tiles, main .figures")
        for _ in range(4321):
            channel.basic_publish("", "orders", b"x")
        connection.process_data_events(0)
        for number, tab in enumerate(tabs):
            sign = ("td:has-text('4,321')", ".tile:has-text('4,321')", ".figures dd:has-text('4,321')")
            tab.wait_for_selector(sign[number % 3])


def test_seven_pages_in_one_tab(quiet_site: Site, visit: Visits) -> None:
    """Pages that the browser keeps for Back hold no stream, and are live again when one comes back."""
    with quiet_site.connect() as connection:
        channel = connection.channel()
        channel.queue_declare("orders", durable=True)
        one = visit(quiet_site)
        for number in range(8):
            one.open(f"/ui/queues?q=orders&sort=-ready&n={number}")
            one.page.wait_for_selector("td a:has-text('orders')")
        one.page.go_back()
        one.page.go_back()
        for _ in range(777):
            channel.basic_publish("", "orders", b"x")
        connection.process_data_events(0)
        one.page.wait_for_selector("td:has-text('777')")


def test_back_after_log_out_shows_the_login(quiet_site: Site, visit: Visits) -> None:
    one = visit(quiet_site)
    one.open("/ui/queues")
    one.page.wait_for_selector(".shell")
    one.page.click("button:has-text('Log out')")
    one.page.wait_for_selector("input[name=username]")
    one.page.go_back()
    one.page.wait_for_selector("input[name=username]")
    one.page.fill("input[name=username]", "guest")
    one.page.fill("input[name=password]", "guest")
    one.page.keyboard.press("Enter")
    one.page.wait_for_selector(".shell")
    assert one.path() == "/ui/queues"
    one.expect_requests_to_fail("401")


def test_what_needs_attention_leads_to_a_list_that_shows_it(quiet_site: Site, visit: Visits) -> None:
    with quiet_site.connect() as connection:
        channel = connection.channel()
        for number in range(12):
            channel.queue_declare(f"idle-{number}")
            channel.basic_publish("", f"idle-{number}", b"x")
        channel.exchange_declare("orders", "topic")
        channel.exchange_declare("audit", "fanout")
        channel.exchange_bind("audit", "orders", "eu.#")
        one = visit(quiet_site)
        one.page.wait_for_selector("a:has-text('more queues without consumers')")
        number = 0
        while not one.page.is_visible(".attention a:has-text('Unroutable messages')"):  # a sample sees some
            channel.basic_publish("orders", f"us.{number % 3}", b"x")
            channel.basic_publish("orders", "eu.1", b"x")
            connection.process_data_events(0.2)
            number += 1
        one.page.click(".attention a:has-text('Unroutable messages')")
        assert unquote(one.path()) == "/ui/exchanges?q=unroutable:>0&sort=-unroutable"
        one.page.click("td a:has-text('orders')")
        one.page.wait_for_selector("section:has(#unroutable) td:has-text('us.2')")
        assert one.axe() == []
        one.open("/ui/exchanges/%2F/audit")
        # Nobody publishes to it: what came from the other exchange is counted.
        one.page.wait_for_selector(".figures div:has-text('From other exchanges')")
        one.open("/ui/")
        one.page.click("a:has-text('more queues without consumers')")
        one.page.wait_for_selector(".total:has-text('12 queues')")


def test_a_connection_names_the_queues_it_consumes(site: Site, visit: Visits) -> None:
    one = visit(site)
    one.open("/ui/connections")
    one.page.click("td a:has-text('newark-board')")
    one.page.click("section:has(#consumers) td a:has-text('flights.newark')")
    one.page.wait_for_selector("h1:has-text('flights.newark')")


def test_a_channel_with_its_client_rates_and_consumers(site: Site, visit: Visits) -> None:
    one = visit(site)
    one.open("/ui/channels?q=client:newark-board")
    one.page.click("td a:has-text('newark-board (1)')")
    one.page.wait_for_selector("nav.crumbs a:has-text('Channels')")
    one.page.wait_for_selector(".plot[aria-label^='To the client: delivered']")
    one.page.wait_for_selector("section:has(#consumers) td a:has-text('flights.newark')")
    one.page.wait_for_selector("button[aria-label^='Close the consumer']")
    one.page.click("section:has(#facts) a:has-text('newark-board')")
    one.page.wait_for_selector(CONNECTION)


def test_a_phone_cuts_no_tag_of_a_user_and_no_last_column(calm: Site, visit: Visits) -> None:
    one = visit(calm, size=PHONE)
    tags = ["management", "policymaker", "monitoring", "administrator"]
    one.page.evaluate(
        """async (tags) => {
            const { csrf_token } = await (await fetch("/admin/v1/session")).json();
            const headers = { "X-CSRF-Token": csrf_token };
            const body = JSON.stringify({ password: "busy", tags });
            await fetch("/api/users/busy", { method: "PUT", headers, body });
        }""",
        tags,
    )
    one.open("/ui/users")
    one.page.wait_for_selector("td a:has-text('busy')")
    right = one.page.eval_on_selector_all(
        "tr:has-text('busy') .pill",
        "all => all.map((pill) => [pill.textContent, pill.getBoundingClientRect().right])",
    )
    assert [tag for tag, _ in right if tag in tags] == tags
    assert max(edge for _, edge in right) <= PHONE[0] - 12
    with calm.connect() as connection:
        connection.channel().queue_declare("a-queue", exclusive=True)
        for path in ("/ui/channels", "/ui/exchanges", "/ui/vhosts", "/ui/queues", "/ui/connections"):
            one.open(path)
            one.page.wait_for_selector("table")
            gap = one.page.evaluate(
                """() => {
                    const all = [...document.querySelectorAll("thead th")];
                    const cells = all.filter((cell) => cell.offsetWidth);
                    const range = document.createRange();
                    range.selectNodeContents(cells.at(-1));
                    const box = cells.at(-1).closest(".table-box").getBoundingClientRect();
                    return box.right - range.getBoundingClientRect().right;
                }"""
            )
            assert gap >= 11, path


@pytest.mark.parametrize("path", ["/ui/queues", "/ui/exchanges", "/ui/connections"])
def test_names_have_room_in_a_small_window(site: Site, visit: Visits, path: str) -> None:
    one = visit(site, size=(1024, 768))
    one.open(path)
    one.page.wait_for_selector(
        "td a:has-text('flights.newark'), td a:has-text('flights.kennedy'), td a:has-text('feed')"
    )
    cut = one.page.eval_on_selector_all(
        "td.first a", "all => all.filter((a) => a.scrollWidth > a.clientWidth + 1).map((a) => a.textContent)"
    )
    assert cut == []


def test_figures_move(quiet_site: Site, visit: Visits) -> None:
    with quiet_site.connect() as connection:
        channel = connection.channel()
        channel.queue_declare("orders", durable=True)
        one = visit(quiet_site)
        one.open("/ui/queues")
        one.page.wait_for_selector("td:has-text('orders')")
        for _ in range(1234):
            channel.basic_publish("", "orders", b"x")
        connection.process_data_events(0)
        one.page.wait_for_selector("tr:has-text('orders') td:has-text('1,234')")
        one.page.click("td a:has-text('orders')")
        one.page.wait_for_selector(".figures dd:has-text('1,234')")
        one.page.wait_for_selector(".none:has-text('1,234 messages wait')")
        channel.queue_delete("orders")
        one.page.wait_for_selector("h2:has-text('no queue of this name')")


def test_a_new_broker_says_what_to_do_next(quiet_site: Site, visit: Visits) -> None:
    one = visit(quiet_site)
    one.page.wait_for_selector("h2:has-text('nothing is connected yet')")
    program = one.page.text_content(".welcome pre")
    for path, sign in (("/ui/queues", "No queues yet"), ("/ui/connections", "Nobody is connected")):
        one.open(path)
        one.page.wait_for_selector(f"h2:has-text('{sign}')")
        assert one.page.text_content("pre") == program
        assert one.axe() == []
    exec(compile(program, "the program on the page", "exec"), {})
    one.open("/ui/queues")
    one.page.wait_for_selector("td a:has-text('hello')")


HOSTILE = [
    "<img src=x onerror=alert(1)>",
    '"><script>alert(1)</script>',
    "${alert(1)} {{7*7}} %s %2F",
    "a/b/../c?d=e#f&g",
    "naïve ünïcödé 队列 🐇",
    "x" * 255,
    "\u202eright to left",
    "two  spaces",
    ".",
    "..",
    "~.",
]


def shown(name: str) -> str:
    """What turns the text around it is written out."""
    return name.replace("\u202e", "\\u202e")


def test_hostile_names_are_text(quiet_site: Site, visit: Visits) -> None:
    with quiet_site.connect() as connection:
        channel = connection.channel()
        channel.exchange_declare(HOSTILE[0], "topic")
        for name in HOSTILE:
            channel.queue_declare(name)
            channel.queue_bind(name, HOSTILE[0], HOSTILE[1])
        one = visit(quiet_site, size=PHONE)
        one.page.on("dialog", lambda dialog: one.complaints.append("a script ran"))
        one.open("/ui/queues")
        one.page.wait_for_selector("td a")
        found = one.page.eval_on_selector_all("td a", "links => links.map((link) => link.textContent)")
        assert set(found) == {shown(name) for name in HOSTILE}
        assert not one.overflows()
        for name in HOSTILE:
            one.open("/ui/queues")
            one.page.get_by_role("link", name=shown(name), exact=True).click()
            one.page.wait_for_selector("section:has(#bindings) td")
            one.page.reload()  # the address leads there, too
            one.page.wait_for_selector("section:has(#bindings) td")
            assert one.page.text_content(".title-name") == shown(name)
            assert not one.overflows()
        one.open("/ui/exchanges/%2F/%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E")
        one.page.wait_for_selector(f"td a:has-text('{'x' * 255}')")
        assert not one.overflows()
        assert one.page.query_selector("main img, main script, main b[onclick]") is None


def test_pages_come_back_after_a_restart(quiet_site: Site, visit: Visits) -> None:
    with quiet_site.connect() as connection:
        connection.channel().queue_declare("kept", durable=True)
    one = visit(quiet_site)
    one.open("/ui/queues")
    one.page.wait_for_selector("td a:has-text('kept')")
    quiet_site.stop()
    one.page.wait_for_selector(".light[data-state=reconnecting]:has-text('data')")
    ages = []
    while not ages or ages[-1] < 5:
        ages.append(int(one.page.text_content(".light").split()[2]))  # Reconnecting, data 3 s old
        one.page.wait_for_timeout(200)
    assert ages == sorted(ages)  # attempts that fail make nothing newer
    assert one.page.is_visible("td a:has-text('kept')")
    quiet_site.start()
    with quiet_site.connect() as connection:
        connection.channel().queue_declare("new", durable=True)
    one.page.wait_for_selector("td a:has-text('new')")
    one.page.wait_for_selector(".light[data-state=live]")
    one.expect_requests_to_fail(NOT_THERE)


def test_thousands_of_queues(quiet_site: Site, visit: Visits) -> None:
    with quiet_site.connect() as connection:
        channel = connection.channel()
        for number in range(3000):
            channel.queue_declare(f"q-{number}", exclusive=True)
        one = visit(quiet_site)
        one.open("/ui/queues?sort=-name&page=60")
        one.page.wait_for_selector("td a:has-text('q-0')")
        assert one.page.text_content(".total") == "3,000 queues"
        assert one.page.locator("tbody tr").count() == 50
        one.page.click("button[aria-label='Page before']")
        one.page.wait_for_selector("td a:has-text('q-99')")
        one.page.fill("#query", "q-299")
        one.page.wait_for_selector(".total:has-text('11 of 3,000')")
        assert unquote(one.path()) == "/ui/queues?sort=-name&q=q-299"


def test_every_file_is_ours(site: Site, visit: Visits) -> None:
    """Nothing is loaded from elsewhere, and what may be kept is not asked for again."""
    one = visit(site, log_in=False)
    asked: list[Any] = []
    one.page.on("request", lambda request: asked.append(request))  # noqa: PLW0108 - playwright marks what it calls
    # Octets on the wire, headers and answers of the API included.
    wire: list[int] = []
    network = one.context.new_cdp_session(one.page)
    network.send("Network.enable")
    network.on("Network.loadingFinished", lambda event: wire.append(int(event["encodedDataLength"])))
    one.log_in()
    one.page.wait_for_selector("h2:has-text('Queued messages')")
    assert asked
    assert {request.url.split("/")[2] for request in asked} == {one.site.base.split("/")[2]}
    assert 0 < sum(wire) < 150_000
    assert sum(one.page.evaluate(TRANSFERRED)) > 0
    one.page.reload()
    one.page.wait_for_selector("h2:has-text('Queued messages')")
    assert sum(one.page.evaluate(TRANSFERRED)) == 0

"""How the pages' files are served."""

from __future__ import annotations

import gzip
import re
import threading
from pathlib import Path
from urllib.parse import quote

import pytest

from admin_ui import ui
from admin_ui.ui import STATIC, TYPES, Assets, assets
from tests.admin_ui.world import World
from tools import vendor

PLAIN = {"Accept-Encoding": "identity"}


@pytest.mark.parametrize("path", ["/ui/", "/ui/queues", "/ui/queues/%2F/a%2Fb", "/ui/login?next=/ui/"])
async def test_every_address_of_a_page_gives_the_document(node: World, path: str) -> None:
    reply = await node.call("GET", path, None, **PLAIN)
    assert reply.status == 200
    assert reply.headers["Content-Type"].startswith("text/html")
    assert reply.headers["Cache-Control"] == "no-cache"
    assert b'<html lang="en">' in reply.body


@pytest.mark.parametrize("path", ["/", "/ui"])
async def test_roots_lead_to_the_pages(node: World, path: str) -> None:
    reply = await node.call("GET", path, None, **PLAIN)
    assert (reply.status, reply.headers["Location"]) == (302, "/ui/")


async def test_files_may_be_kept_for_ever(node: World) -> None:
    page = (await node.call("GET", "/ui/", None, **PLAIN)).body.decode()
    for path in re.findall(r'(?:href|src)="(/ui/[^"]+)"', page):
        reply = await node.call("GET", path, None, **PLAIN)
        assert reply.status == 200, path
        assert reply.headers["Cache-Control"] == "public, max-age=31536000, immutable"
        again = await node.call("GET", path, None, **{"If-None-Match": reply.headers["ETag"]})
        assert (again.status, again.body) == (304, b"")
        assert again.headers["Cache-Control"] == reply.headers["Cache-Control"]


async def test_the_hash_of_another_version_is_answered_but_not_kept(node: World) -> None:
    reply = await node.call("GET", "/ui/static/0123456789ab/app.mjs", None)
    assert (reply.status, reply.headers["Cache-Control"]) == (200, "no-cache")


async def test_compressed_when_asked_for(node: World) -> None:
    path = f"/ui/static/{assets().version}/app.css"
    plain = await node.call("GET", path, None, **PLAIN)
    small = await node.call("GET", path, None, **{"Accept-Encoding": "gzip"})
    assert plain.headers.get("Content-Encoding") is None
    assert small.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(small.body) == plain.body == (STATIC / "app.css").read_bytes()
    assert "Accept-Encoding" in small.headers["Vary"]


@pytest.mark.parametrize("path", ["nothing.mjs", "../ui.py", "..%2Fui.py", "%2e%2e/ui.py", "vendor/", ""])
async def test_other_files_are_not_there(node: World, path: str) -> None:
    reply = await node.call("GET", f"/ui/static/{assets().version}/{path}", None, **PLAIN)
    assert reply.status in (200, 404)
    assert b"import" not in reply.body or b"<html" in reply.body


async def test_headers_of_every_reply(node: World) -> None:
    for path in (
        "/",
        "/ui/",
        "/ui/static/x/app.mjs",
        "/ui/static/x/none",
        "/api/whoami",
        "/admin/v1/session",
    ):
        reply = await node.call("GET", path, None, **PLAIN)
        policy = reply.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert "unsafe" not in policy
        assert reply.headers["X-Content-Type-Options"] == "nosniff"
        assert reply.headers["Referrer-Policy"] == "no-referrer"


def test_every_file_has_a_known_type() -> None:
    assert {path.suffix for path in STATIC.rglob("*") if path.is_file()} <= TYPES.keys()
    assert len(Assets(STATIC).version) == 12


def test_vendored_files_are_the_locked_ones() -> None:
    assert list(vendor.differences()) == []


def test_vendored_packages_name_their_licence_and_source() -> None:
    for folder in vendor.FOLDERS:
        for package in vendor.read_lock(folder):
            assert package["licence"]
            assert package["source"].startswith("https://registry.npmjs.org/")
            assert any("LICENSE" in file["to"] for file in package["files"])


def test_no_page_writes_markup_or_runs_text() -> None:
    """Names come from clients: they are put on the page as text, whatever they hold."""
    for path in STATIC.rglob("*.mjs"):
        if "vendor" not in path.parts:
            text = path.read_text()
            for word in (
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "new Function",
            ):
                assert word not in text, (path, word)


def test_vendored_modules_import_nothing_from_elsewhere() -> None:
    for path in (STATIC / "vendor").glob("*.mjs"):
        for target in re.findall(r"""\b(?:from|import)\s*["']([^"']+)["']""", path.read_text()):
            assert target.startswith("./"), (path, target)


def test_rewriting_bare_imports() -> None:
    text = "import{h as n}from\"preact\";import x from 'preact';\n//# sourceMappingURL=a.map"
    found = vendor.rewrite(text, {"preact": "preact.mjs"}, "export default 1;\n")
    assert found == ('import{h as n}from"./preact.mjs";import x from"./preact.mjs";\nexport default 1;\n')
    with pytest.raises(vendor.VendorError, match="'react'"):
        vendor.rewrite('import "react"', {}, "")


@pytest.mark.parametrize("name", [".", "..", "~.", "~~..", "~", "a/b", "orders.eu"])
async def test_documents_of_objects_of_any_name(shop: World, name: str) -> None:
    """Browsers resolve . and .. in paths: for our pages a ~ is in front, which /api does not know."""
    shop.add_vhost("..")
    for vhost in ("shop", ".."):
        here = shop.broker.vhosts[vhost]
        here.declare_queue(name, durable=True)
        here.declare_exchange(name, "topic", durable=True)
        here.bind_queue(name, name, "key", {}, None)

    def part(text: str) -> str:
        return quote("~" + text if text.lstrip("~") in (".", "..") else text, safe="")

    for vhost in ("shop", ".."):
        place = f"{part(vhost)}/{part(name)}"
        for path in (f"queues/{place}", f"exchanges/{place}"):
            reply = await shop.call("GET", f"/admin/v1/{path}")
            assert (reply.json["vhost"], reply.json["name"]) == (vhost, name)
        for path in (f"queues/{place}/bindings", f"exchanges/{place}/bindings/source"):
            reply = await shop.call("GET", f"/admin/v1/{path}")
            found = reply.json[-1]
            assert (found["vhost"], found["source"], found["destination"]) == (vhost, name, name)
        assert (await shop.call("GET", f"/admin/v1/exchanges/{place}/bindings/destination")).json == []
        for path in (
            f"bindings/{part(vhost)}/e/{part(name)}/q/{part(name)}/key",
            f"queues/{place}",
            f"exchanges/{place}",
        ):
            assert (await shop.call("DELETE", f"/admin/v1/{path}")).status == 204, path
    assert (await shop.call("GET", "/api/queues/shop/~~~.")).status == 404


async def test_connections_are_found_by_what_clients_call_them(shop: World) -> None:
    await shop.connect("shop", client_properties={"connection_name": "Feed 1"})
    await shop.connect("shop")
    for text, count in (("Feed", 1), ("127.0.0.1", 2), ("nobody", 0)):
        query = f"page=1&name={text}&columns=user_provided_name"
        found = (await shop.call("GET", f"/admin/v1/connections?{query}")).json["items"]
        assert len(found) == count
    assert (await shop.call("GET", "/admin/v1/connections", "alice")).json == []


async def test_the_figures_of_a_virtual_host_are_for_all_who_may_enter_it(shop: World) -> None:
    assert (await shop.call("GET", "/admin/v1/vhosts/shop", "alice")).json["name"] == "shop"
    assert (await shop.call("GET", "/admin/v1/vhosts/staging", "alice")).status == 401
    assert (await shop.call("GET", "/admin/v1/vhosts/shop", "dave")).status == 401
    assert (await shop.call("GET", "/admin/v1/queues/staging/x", "alice")).status == 401
    assert (await shop.call("DELETE", "/admin/v1/queues/shop/emails", "dave")).status == 401


async def test_the_page_asks_for_one_module(node: World) -> None:
    page = (await node.call("GET", "/ui/", None, **PLAIN)).body.decode()
    version = assets().version
    assert re.findall(r'<script type="module" src="([^"]+)"', page) == [f"/ui/static/{version}/all.mjs"]
    assert "{" not in page
    whole = (await node.call("GET", f"/ui/static/{version}/all.mjs", None, **PLAIN)).body.decode()
    for name in ("vendor/preact-hooks.mjs", "components/shell.mjs", "pages/overview.mjs", "app.mjs"):
        assert f"// {name}\n" in whole
    # Those that load later are not in it, and their addresses are there.
    for name in ("components/palette.mjs", "pages/queue.mjs", "acts/objects.mjs"):
        assert f"// {name}\n" not in whole
        assert f'import("./{name}")' in whole
        assert (await node.call("GET", f"/ui/static/{version}/{name}", None)).status == 200


async def test_files_are_compressed_beside_the_event_loop(
    node: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []

    def read(folder: Path) -> Assets:
        threads.append(threading.get_ident())
        return Assets(folder)

    assets.cache_clear()
    monkeypatch.setattr(ui, "Assets", read)
    assert (await node.call("GET", "/ui/", None)).status == 200
    assert (await node.call("GET", "/ui/", None)).status == 200
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()


async def test_channels_have_what_clients_call_their_connections(shop: World) -> None:
    feed = await shop.connect("shop", client_properties={"connection_name": "Feed 1"})
    await feed.channel()
    await (await shop.connect("shop")).channel()
    for text, clients in (("Feed", ["Feed 1"]), ("(1)", ["", "Feed 1"]), ("nobody", [])):
        query = f"page=1&name={text}&columns=client,name"
        found = (await shop.call("GET", f"/admin/v1/channels?{query}")).json["items"]
        assert sorted(row["client"] for row in found) == clients
    assert "client" not in (await shop.call("GET", "/api/channels")).json[0]
    assert (await shop.call("GET", "/admin/v1/channels", "alice")).json == []

"""The pages: one HTML document for every address under ``/ui/``, and the files it loads.

There is no build step. The address of a file contains the hash of all files together
(``/ui/static/<hash>/app.css``). Modules import each other by relative path, so all have that hash, and a
browser may keep them for ever. Another version of the pages has other addresses. The HTML document is not
cached. What the first page needs is served as one file (``combined``).
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from functools import cache
from pathlib import Path

from aiohttp import web

from admin_ui.combined import Combined
from admin_ui.replies import takes_gzip

STATIC = Path(__file__).resolve().parent / "static"
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".woff2": "font/woff2",
}
#: Smaller files are not compressed, and neither are fonts, which are compressed already.
COMPRESS_BYTES_MIN = 512
#: The module that the page runs, and the one with all that it imports, which is made here.
ENTRY, WHOLE = "app.mjs", "all.mjs"
#: Runs outside of the page, so it has its modules for itself.
WORKER = "lib/worker.mjs"


class Asset:
    """One file in memory, with its compressed form."""

    def __init__(self, path: Path, data: bytes) -> None:
        self.data = data
        self.content_type = TYPES[path.suffix]
        self.etag = hashlib.sha256(data).hexdigest()[:20]
        worth = len(data) >= COMPRESS_BYTES_MIN and path.suffix != ".woff2"
        self.compressed = gzip.compress(data, 9, mtime=0) if worth else None


class Assets:
    """All files of the pages by their path in ``static``. They are read once."""

    def __init__(self, folder: Path) -> None:
        files = {
            path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.suffix in TYPES
        }
        contents = {name: files[name].read_bytes() for name in sorted(files)}
        whole = hashlib.sha256()
        for name, data in contents.items():
            whole.update(name.encode() + b"\0" + hashlib.sha256(data).digest())
        self.version = whole.hexdigest()[:12]
        page = contents.pop("index.html").replace(b"{whole}", WHOLE.encode())
        page = page.replace(b"{static}", f"/ui/static/{self.version}".encode())
        self.page = Asset(files["index.html"], page)
        whole_module = Combined(contents, ENTRY, WHOLE)
        worker = Combined(contents, WORKER, WORKER)
        contents |= {WHOLE: whole_module.text(), **whole_module.stand_ins(), WORKER: worker.text()}
        self.files = {name: Asset(Path(name), data) for name, data in contents.items()}


@cache
def assets() -> Assets:
    """The files, read when the first page is requested."""
    return Assets(STATIC)


async def _loaded() -> Assets:
    """The files; the first time they are read and compressed beside the event loop, some 20 ms."""
    return await asyncio.to_thread(assets) if not assets.cache_info().currsize else assets()


def add_routes(app: web.Application) -> None:
    """Register the pages with the admin server."""
    app.router.add_get("/", _to_pages)
    app.router.add_get("/ui", _to_pages)
    app.router.add_get("/favicon.ico", _favicon)
    app.router.add_get("/ui/static/{version}/{path:.+}", _file)
    app.router.add_get("/ui/{page:.*}", _page)


async def _to_pages(request: web.Request) -> web.StreamResponse:
    raise web.HTTPFound("/ui/")


async def _favicon(request: web.Request) -> web.StreamResponse:
    return _answer(request, (await _loaded()).files["icon.svg"], "max-age=86400")


async def _page(request: web.Request) -> web.StreamResponse:
    return _answer(request, (await _loaded()).page, "no-cache")


async def _file(request: web.Request) -> web.StreamResponse:
    known = await _loaded()
    asset = known.files.get(request.match_info["path"])
    if asset is None:
        raise web.HTTPNotFound(text="There is no such file.\n")
    # A page that was open while the broker was upgraded uses the old hash. It gets the current file,
    # uncached.
    current = request.match_info["version"] == known.version
    return _answer(request, asset, "public, max-age=31536000, immutable" if current else "no-cache")


def _answer(request: web.Request, asset: Asset, caching: str) -> web.Response:
    headers = {"ETag": f'"{asset.etag}"', "Cache-Control": caching, "Vary": "Accept-Encoding"}
    if any(tag.value in (asset.etag, "*") for tag in request.if_none_match or ()):
        return web.Response(status=304, headers=headers)
    body = asset.data
    if asset.compressed is not None and takes_gzip(request):
        headers["Content-Encoding"] = "gzip"
        body = asset.compressed
    return web.Response(body=body, headers={**headers, "Content-Type": asset.content_type})

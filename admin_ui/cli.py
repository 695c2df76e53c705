"""``/cli/rabbitmqadmin``: the client as a file to download, without a login, where RabbitMQ has its own."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from aiohttp import web

SCRIPT = Path(__file__).resolve().parent / "tools" / "rabbitmqadmin"
INDEX = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>rabbitmqadmin</title></head><body>
<h1>rabbitmqadmin</h1>
<p><a href="/cli/rabbitmqadmin">rabbitmqadmin</a> is a client of this broker's HTTP API
in one file. It needs Python 3.8
or later:</p>
<pre>chmod +x rabbitmqadmin; ./rabbitmqadmin help subcommands</pre>
</body></html>
"""


@cache
def script() -> bytes:
    """The file, read when it is first asked for."""
    return SCRIPT.read_bytes()


def add_routes(app: web.Application) -> None:
    """Register the pages with the admin server."""
    app.router.add_get("/cli/rabbitmqadmin", _script)
    app.router.add_get("/cli/index.html", _index)
    for path in ("/cli", "/cli/"):
        app.router.add_get(path, _to_index)


async def _script(request: web.Request) -> web.Response:
    headers = {"Content-Disposition": "attachment; filename=rabbitmqadmin"}
    return web.Response(body=script(), content_type="application/octet-stream", headers=headers)


async def _index(request: web.Request) -> web.Response:
    return web.Response(text=INDEX, content_type="text/html")


async def _to_index(request: web.Request) -> web.Response:
    raise web.HTTPMovedPermanently("/cli/index.html")

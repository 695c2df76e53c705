"""For every reply: adds security headers, and limits an error of a handler to its own request.

Source: RabbitMQ's HTTP API (``vary``); OWASP Secure Headers Project.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from aiohttp import web

from admin_ui.replies import JSON, ApiError, dumps, method_not_allowed
from admin_ui.state import STATE
from admin_ui.turns import entrance
from amqp_router.cycles import forget_frames

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]

#: Our pages run and show only our own files, and cannot be framed.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Server": "amqp-router",
}
#: Sent over TLS: browsers ask this host over TLS alone, for a year (RFC 6797).
STRICT_TRANSPORT_SECURITY = "max-age=31536000"
#: Methods of a path that can only be read.
READS = "HEAD, GET, OPTIONS"
VARY = "accept, accept-encoding, origin"


#: Headers that browsers heed with a document alone, by what has no use for them: two dozen files would carry
#: them. A script keeps its policy, because a worker obeys the one that comes with it.
NOT_FOR = {
    "text/javascript": ("Cross-Origin-Opener-Policy",),
    "text/css": ("Cross-Origin-Opener-Policy", "Content-Security-Policy"),
    "font/woff2": ("Cross-Origin-Opener-Policy", "Content-Security-Policy"),
}


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Handler of the signal ``on_response_prepare``, which also gets the replies that aiohttp makes
    itself.
    """
    response.headers.update(HEADERS)
    for name in NOT_FOR.get(response.content_type, ()):
        del response.headers[name]
    if request.transport is not None and request.transport.get_extra_info("tls") is not None:
        response.headers["Strict-Transport-Security"] = STRICT_TRANSPORT_SECURITY
    response.headers.setdefault("Vary", VARY)
    if response.headers.get("Content-Length") == "0":
        response.headers.pop("Content-Type", None)  # aiohttp sets it even without a body


@web.middleware
async def errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Begin when it is the request's turn. Turn refusals into replies, and unexpected errors into a 500 that
    points to the log.
    """
    await entrance().turn()
    try:
        return await handler(request)
    except ApiError as error:
        return _refusal(error)
    except web.HTTPNotFound as error:
        if not request.path.startswith(("/api/", "/admin/")):
            raise
        if request.method == "OPTIONS":
            return web.Response(headers={"Allow": READS})
        if request.method not in ("GET", "HEAD"):
            return _refusal(method_not_allowed(request.method, READS))
        body = dumps({"error": "Object Not Found", "reason": "Not Found"})
        return web.Response(status=error.status, body=body, content_type=JSON)
    except web.HTTPMethodNotAllowed as error:
        return _refusal(method_not_allowed(request.method, ", ".join(sorted(error.allowed_methods))))
    except web.HTTPException:
        raise
    except ConnectionError as error:
        forget_frames(error)
        if request.transport is not None:
            raise
        # The client has gone, so this is not sent. An exception would keep the task that raised it.
        return web.Response()
    except Exception as error:
        request.app[STATE].broker.unexpected(f"{request.method} {request.path}", error)
        if request.writer.output_size > 0:
            raise ConnectionResetError("half of the answer is sent") from None  # closes the connection
        body = dumps({"error": "internal_error", "reason": "an error of the server, see its log"})
        return web.Response(status=500, body=body, content_type=JSON)


def _refusal(error: ApiError) -> web.Response:
    body = b"" if error.body is None else dumps(error.body)
    headers = {"Content-Type": JSON, **error.headers} if body else error.headers
    return web.Response(status=error.status, body=body, headers=headers)

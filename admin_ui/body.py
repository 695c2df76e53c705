"""Reads the body of a request; refuses one that is too large or too slow."""

from __future__ import annotations

import asyncio

from aiohttp import web

from admin_ui.replies import ApiError

#: Seconds in which the whole body must arrive.
BODY_S = 10.0


async def read(request: web.Request, bytes_max: int) -> bytes:
    """The body.

    Raises:
        ApiError: it has more than ``bytes_max`` octets (413), or does not arrive in time (408).
    """
    data = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            async for piece in request.content.iter_any():
                data += piece
                if len(data) > bytes_max:
                    raise ApiError(413, "bad_request", "the body is too large")
    except TimeoutError:
        raise ApiError(408, "bad_request", "the body did not come in time") from None
    return bytes(data)

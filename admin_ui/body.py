"""Reads the body of a request; refuses one that is too large or too slow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator

from aiohttp import BodyPartReader, web

from admin_ui.replies import ApiError, bad_request

#: Seconds in which the whole body must arrive.
BODY_S = 10.0
#: Octets of a piece of a large body, at least.
PIECE_BYTES = 16 << 10


async def read(request: web.Request, bytes_max: int) -> bytes:
    """The body.

    Raises:
        ApiError: it has more than ``bytes_max`` octets (400), or does not arrive in time (408).
    """
    return b"".join(await read_pieces(request, bytes_max))


async def read_pieces(request: web.Request, bytes_max: int) -> list[bytes]:
    """The body in pieces of at least `PIECE_BYTES`, but for the last: a large one is never copied as a whole.

    Raises:
        ApiError: as ``read``.
    """
    return await _gathered(request.content.iter_any(), bytes_max)


async def read_field(request: web.Request, name: str, bytes_max: int) -> list[bytes]:
    """The field ``name`` of a form with parts, as browsers send a file; in pieces, as ``read_pieces`` gives.

    Raises:
        ApiError: there is none, or the body is no such form (400); else as ``read``.
    """
    try:
        async with asyncio.timeout(BODY_S):
            async for part in await request.multipart():
                if isinstance(part, BodyPartReader) and part.name == name:
                    return await _gathered(_pieces(part), bytes_max)
    except TimeoutError:
        raise ApiError(408, "bad_request", "the body did not come in time") from None
    except (ValueError, AssertionError):
        raise ApiError(400, "bad_request", "the form cannot be read") from None
    raise ApiError(400, "bad_request", f"the form has no field {name}")


async def _pieces(part: BodyPartReader) -> AsyncIterator[bytes]:
    while piece := await part.read_chunk():
        yield piece


async def _gathered(pieces: AsyncIterable[bytes], bytes_max: int) -> list[bytes]:
    found: list[bytes] = []
    last = bytearray()
    left = bytes_max
    try:
        async with asyncio.timeout(BODY_S):
            async for piece in pieces:
                left -= len(piece)
                if left < 0:
                    raise bad_request("Exceeded HTTP request body size limit")
                last += piece  # a client may send single octets
                if len(last) >= PIECE_BYTES:
                    found.append(bytes(last))
                    last.clear()
    except TimeoutError:
        raise ApiError(408, "bad_request", "the body did not come in time") from None
    if last:
        found.append(bytes(last))
    return found

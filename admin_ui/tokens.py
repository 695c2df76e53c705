"""``/admin/v1/tokens``: API tokens, made, listed and revoked. See ``token_store`` for what they are.

GET lists the caller's own, and for administrators everybody's. POST makes one and answers with it, the only
time that it is shown. DELETE of ``/tokens/{id}`` revokes one.

A token cannot make tokens: whoever finds one could keep its rights beyond its end. Revoking one, also
itself, is allowed.
"""

from __future__ import annotations

import logging
from typing import Any

from aiohttp import web

from admin_ui.auth import ADMINISTRATOR
from admin_ui.endpoints import Call, Endpoint
from admin_ui.local_login import NAME as OWNER
from admin_ui.replies import ApiError, Body, Done, bad_request, dumps, not_authorised, not_found
from admin_ui.state import STATE
from admin_ui.token_store import ROLES, TOKENS, Token, Tokens, TooManyTokens, shared_tags
from admin_ui.writing import boolean, read_object, tags_of

DAY_S = 86_400
DAYS_DEFAULT = 90
DAYS_MAX = 3650
NAME_MAX = 100


def every(call: Call) -> list[dict[str, Any]]:
    """The caller's tokens; for administrators all."""
    everything = call.identity.has(ADMINISTRATOR)
    tokens = _tokens(call)
    return [
        _document(tokens, each) for each in tokens.every() if everything or each.user == call.identity.name
    ]


async def make(call: Call) -> Body:
    """Make a token, which is in this answer alone.

    Raises:
        ApiError: the body is wrong, or there are too many tokens (400); the caller may not (401).
    """
    if call.identity.token:
        raise not_authorised("a token cannot make tokens: log in with a password")
    content = await read_object(call)
    user, tags = _user(call, content)
    name, days = _name(content), _days(content)
    try:
        shown, token = await _tokens(call).make(
            user,
            name,
            tags,
            read_only=boolean(content, "read_only"),
            valid_s=None if days is None else days * DAY_S,
        )
    except TooManyTokens as error:
        raise bad_request(str(error)) from None
    except OSError as error:
        raise ApiError(500, "internal_error", f"the token cannot be stored: {error}") from None
    _log(call, "API token made", token)
    call.headers["Cache-Control"] = "no-store"
    body = call.new_body()
    body.add(dumps({**_document(_tokens(call), token), "token": shown}))
    return body


async def revoke(call: Call) -> Done:
    """Revoke a token.

    Raises:
        ApiError: there is none (404), or it is another user's (401).
    """
    token = _tokens(call).get(call.part("id"))
    if token is None:
        raise not_found()
    if token.user != call.identity.name and not call.identity.has(ADMINISTRATOR):
        raise not_authorised("User not authorised to access object")
    try:
        await _tokens(call).revoke(token.id)
    except OSError as error:
        raise ApiError(
            500, "internal_error", f"the token has ended, but a restart would bring it back: {error}"
        ) from None
    _log(call, "API token revoked", token)
    return Done(204)


def _tokens(call: Call) -> Tokens:
    return call.request.app[TOKENS]


def _user(call: Call, content: dict[str, Any]) -> tuple[str, list[str]]:
    """The user and the tags of a new token.

    Raises:
        ApiError: there is no such user or tag, or the user does not have it (400); or the caller may not make
            tokens for that user (401).
    """
    mine = call.identity.name
    user = content.get("user", mine)
    if not isinstance(user, str):
        raise bad_request("user is not a string")
    if user == OWNER:
        raise bad_request("user is needed: whose token it is")
    if user != mine and not call.identity.has(ADMINISTRATOR):
        raise not_authorised("Not administrator user")
    if user == mine:
        has = call.identity.tags
    else:
        row = call.state.broker.users.users.get(user)
        if row is None:
            raise bad_request(["no_such_user", user])
        has = row.tags
    tags = tags_of(content["tags"]) if "tags" in content else [tag for tag in has if tag in ROLES]
    unknown = [tag for tag in tags if tag not in ROLES]
    if unknown:
        raise bad_request(f"tags: {unknown[0]!r} is none of {', '.join(ROLES)}")
    refused = [tag for tag in tags if tag not in shared_tags(has, tags)]
    if refused:
        raise bad_request(f"tags: user '{user}' does not have the tag {refused[0]}")
    if not tags:
        raise bad_request("tags: without a tag the API is closed to the token")
    return user, list(dict.fromkeys(tags))


def _name(content: dict[str, Any]) -> str:
    name = content.get("name", "")
    if not isinstance(name, str) or len(name) > NAME_MAX or not name.isprintable():
        raise bad_request(f"name is a text of at most {NAME_MAX} printable characters")
    return name


def _days(content: dict[str, Any]) -> int | None:
    days = content.get("valid_days", DAYS_DEFAULT)
    if days is None:
        return None
    if isinstance(days, bool) or not isinstance(days, int) or not 0 < days <= DAYS_MAX:
        raise bad_request(f"valid_days is a number from 1 to {DAYS_MAX}, or null for a token without an end")
    return days


def _document(tokens: Tokens, token: Token) -> dict[str, Any]:
    return {
        "id": token.id,
        "name": token.name,
        "user": token.user,
        "tags": token.tags,
        "read_only": token.read_only,
        "created": token.created,
        "expires": token.expires,
        "expired": not tokens.is_valid(token),
        "used": token.used,
    }


def _log(call: Call, what: str, token: Token) -> None:
    call.state.broker.event(
        logging.INFO,
        what,
        id=token.id,
        user=token.user,
        tags=" ".join(token.tags),
        by=call.identity.name or "the owner of the data directory",
    )


def add_routes(app: web.Application) -> None:
    """Keep the tokens for all handlers."""
    tokens = app[TOKENS] = Tokens(app[STATE])
    app.on_startup.append(tokens.load)


ENDPOINTS = [Endpoint("/tokens", every, post=make), Endpoint("/tokens/{id}", delete=revoke)]

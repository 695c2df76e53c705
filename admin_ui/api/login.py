"""``POST /api/login``: a form with ``username`` and ``password`` opens a session.

RabbitMQ's cookie is the name and password, only encoded. Ours is that of the pages' sessions
(``admin_ui.sessions``): a random number. With it everything may be read; who wants to change something must
also send the session's token (``X-CSRF-Token``, from ``GET /admin/v1/session``), as our pages do.

Source: RabbitMQ's HTTP API 3.10, measured.
"""

from __future__ import annotations

from urllib.parse import parse_qs

from admin_ui import body, sessions
from admin_ui.endpoints import Call, Endpoint
from admin_ui.replies import bad_request

#: Octets of a form.
FORM_BYTES_MAX = 4096
FIELDS = ("username", "password")


async def log_in(call: Call) -> str:
    """Open a session by a form; answers "ok" and a cookie.

    Raises:
        ApiError: a field is missing (400), or the login is wrong (401).
    """
    data = await body.read(call.request, FORM_BYTES_MAX)
    try:
        form = parse_qs(data.decode(), keep_blank_values=True, max_num_fields=10)
    except ValueError:
        raise bad_request("not_a_form") from None
    missing = [f"{{key_missing,{name}}}" for name in FIELDS if name not in form]
    if missing:
        raise bad_request("[" + ",".join(missing) + "]")
    _, cookie = sessions.begin(call.request, form["username"][0], form["password"][0])
    call.headers["Set-Cookie"] = cookie
    call.headers["Cache-Control"] = "no-store"
    return "ok"


ENDPOINTS = [Endpoint("/login", tags=None, post=log_in, write_tags=None)]

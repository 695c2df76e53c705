"""The query parameters that every list understands, and paging.

Source: RabbitMQ's HTTP API 3.10, measured: error texts, the limits of a page, and which parameter is ignored
without its companion.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from admin_ui.documents.arguments import LargeTable
from admin_ui.replies import bad_request
from amqp_router.metrics import Span
from vhosts.patterns import LIMIT_S, Pattern, TooSlow, compile_pattern

PAGE_SIZE = 100
PAGE_SIZE_MAX = 500
#: Longest filter in characters; and the memory (bytes) of RE2 for it, which also bounds its time.
NAME_MAX = 1000
PATTERN_MEMORY_BYTES = 32 << 10
#: Names of the parameters for samples, <name>_age and <name>_incr, in seconds.
SPANS = ("lengths", "msg_rates", "data_rates", "node_stats")
#: Most steps of a span.
STEPS_MAX = 500
NO_SPANS: dict[str, Span] = {}


#: Wanted columns by name, each with the wanted columns inside of it, or None for all.
Columns: TypeAlias = "dict[str, Columns | None]"


@dataclass(frozen=True, slots=True)
class Page:
    """The part of a list that the request wants."""

    number: int
    size: int
    #: The text that names must contain, in lower case, because the filter ignores case as in RabbitMQ.
    name: str
    pattern: Pattern | None

    def admits(self, names: list[str]) -> list[bool]:
        """For each of a few names, whether the filter accepts it.

        Raises:
            ApiError: the expression takes too long to match (400).
        """
        if self.pattern is None:
            return [self.name in name.casefold() for name in names]
        # A busy machine makes no expression slow: the limit is the thread's own time.
        end = time.thread_time() + LIMIT_S
        admitted = []
        try:
            for name in names:
                admitted.append(self.pattern.matches(name, max(0.0, end - time.thread_time())))
                if time.thread_time() > end:
                    raise TooSlow
        except TooSlow:
            raise bad_request("The regular expression takes too long to match") from None
        return admitted


@dataclass(frozen=True, slots=True)
class Query:
    """The parameters of a request that shape the reply."""

    columns: Columns | None = None
    sort: list[str] | None = None
    sort_reverse: bool = False
    page: Page | None = None
    disable_stats: bool = False
    enable_queue_totals: bool = False
    spans: dict[str, Span] = field(default_factory=dict)


def parse(query: Mapping[str, str]) -> Query:
    """Parse the parameters of a request.

    Raises:
        ApiError: they are invalid (400).
    """
    columns = query.get("columns")
    sort = query.get("sort")
    return Query(
        columns=_columns(columns) if columns else None,
        sort=sort.split(".") if sort else None,
        sort_reverse=query.get("sort_reverse") == "true",
        page=_page(query) if "page" in query else None,
        disable_stats=query.get("disable_stats") == "true",
        enable_queue_totals=query.get("enable_queue_totals") == "true",
        spans={name: span for name in SPANS if (span := _span(query, name)) is not None},
    )


def _page(query: Mapping[str, str]) -> Page:
    try:
        number, size = int(query["page"]), int(query.get("page_size") or PAGE_SIZE)
        name = query.get("name", "")
        if len(name) > NAME_MAX:
            raise ValueError
    except ValueError:
        raise bad_request("Pagination parameters are invalid") from None
    if number < 1 or not 1 <= size <= PAGE_SIZE_MAX:
        wanted = query.get("page_size", "undefined")
        raise bad_request(
            f"Invalid pagination parameters: page number {number}, page size {wanted}",
            "invalid_pagination_parameters",
        )
    pattern = _pattern(name) if name and query.get("use_regex") == "true" else None
    return Page(number, size, name.casefold(), pattern)


def _pattern(text: str) -> Pattern:
    try:
        return compile_pattern(text, ignore_case=True, memory_bytes=PATTERN_MEMORY_BYTES)
    except ValueError as error:
        raise bad_request(f"Pagination parameters are invalid: {error}") from None


def _span(query: Mapping[str, str], name: str) -> Span | None:
    try:
        age, step = int(query[f"{name}_age"]), int(query[f"{name}_incr"])
    except (KeyError, ValueError):
        return None
    if age <= 0 or step <= 0 or age // step > STEPS_MAX:
        raise bad_request(f"Invalid range parameters: age {age}, incr {step}")
    return Span(age, step)


def cut(page: Page, rows: list[Any]) -> list[Any]:
    """The rows of one page of the filtered list.

    Raises:
        ApiError: the page is after the last one (400).
    """
    start = (page.number - 1) * page.size
    if start >= len(rows) and page.number > 1:
        raise bad_request(
            f"Page out of range, page: {page.number} page size: {page.size}, len: {len(rows)}",
            "page_out_of_range",
        )
    return rows[start : start + page.size]


def envelope(page: Page, total: int, filtered: int, items: int) -> dict[str, Any]:
    """The fields of a page other than its items."""
    return {
        "filtered_count": filtered,
        "item_count": items,
        "page": page.number,
        "page_count": max(1, -(-filtered // page.size)),
        "page_size": page.size,
        "total_count": total,
    }


#: What RabbitMQ keeps in a way that it does not look into: a part of it is the whole.
_WHOLE = frozenset(
    (
        *("arguments", "backing_queue_status", "client_properties", "metadata"),
        *("churn_rates", "object_totals", "queue_totals"),
    )
)
#: And of the overview, which has these totals, this too.
_WHOLE_OF_TOTALS = _WHOLE | {"message_stats"}


class Entire(dict[str, Any]):
    """A document that ``columns`` takes nothing from: that of one connection or channel."""


def pick(document: dict[str, Any], columns: Columns) -> Any:
    """The wanted columns of a document; ``[]`` if it has none of them, as in RabbitMQ."""
    return _picked(document, columns) or []


def _picked(document: dict[str, Any], columns: Columns) -> dict[str, Any]:
    picked: dict[str, Any] = {}
    whole = _WHOLE_OF_TOTALS if "object_totals" in document else _WHOLE
    for name, inner in columns.items():
        if name in document:
            value = document[name]
            picked[name] = value if inner is None or name in whole else part(value, inner)
    return picked


def part(value: Any, columns: Columns) -> Any:
    """The wanted columns of a value in a document."""
    if isinstance(value, dict):
        return _picked(value, columns) or ([] if value else value)
    return [part(each, columns) for each in value] if isinstance(value, list) else value


def _columns(text: str) -> Columns:
    columns: Columns = {}
    for path in text.split(","):
        level: Columns = columns
        *outer, last = path.split(".")
        for name in outer:
            inner = level.setdefault(name, {})
            if inner is None:
                break  # the whole of it is wanted already
            level = inner
        else:
            level[last] = None
    return columns


def sort_key(document: Any, path: list[str]) -> tuple[int, Any]:
    """The sort key of a document. A missing value counts as 0; numbers come before strings."""
    value: Any = document
    for name in path:
        value = value.get(name, 0) if isinstance(value, (dict, LargeTable)) else 0
    return order(value)


def order(value: Any) -> tuple[int, Any]:
    """A key that can be compared with every other: RabbitMQ sorts numbers, then words, then the rest."""
    if isinstance(value, bool) or value is None:
        return 1, str(value).lower()
    if isinstance(value, (int, float)):
        return 0, value
    if isinstance(value, str):
        return 2, value
    return 3, repr(value)

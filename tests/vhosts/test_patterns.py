"""Patterns of users: what matches, what is refused with a reason, and that none takes much time or memory."""

from __future__ import annotations

import contextlib
import resource
import subprocess
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from vhosts.patterns import Pattern, TooSlow, compile_pattern


def is_linear(pattern: Pattern) -> bool:
    return pattern._is_linear


@pytest.mark.parametrize(
    ("text", "linear"),
    [
        ("^orders", True),
        ("[[:alpha:]]+", True),
        ("(a+)+$", True),
        ("(" * 900 + ")" * 900, True),
        (r"^(?!amq\.).*", False),
        (r"(a)\1", False),
        ("(?i)ü", False),  # RE2 would take its octets for letters of Latin-1
    ],
)
def test_the_linear_engine_is_taken_where_it_can(text: str, linear: bool) -> None:
    assert is_linear(compile_pattern(text)) is linear


@pytest.mark.parametrize(
    ("text", "yes", "no"),
    [
        (r"^(?!amq\.).*", "orders", "amq.direct"),
        (r"^[[:upper:]][[:^digit:]]+$", "Ab", "a1"),
        (r"^(?=.)[[:upper:]][[:^digit:]]+$", "Ab", "a1"),
        (r"^[]a]+$", "a]", "b"),
        (r"^(?=.)a{$", "a{", "a"),
        (r"^(?=.)a{e<=1}$", "a{e<=1}", "b"),
        (r"^(?=.)\Qa.b\E$", "a.b", "axb"),
        (r"^(?=.)a(?#( {1000})b{2}$", "abb", "ab"),
        (r"\Aq(?=\z)", "q", "q\n"),
        (r"^(?P<x>a|b)(?P=x)$", "bb", "ab"),
    ],
)
def test_matches(text: str, yes: str, no: str) -> None:
    pattern = compile_pattern(text)
    assert pattern.matches(yes)
    assert not pattern.matches(no)


@pytest.mark.parametrize("text", ["^ORD", "^(?=o)ord"])
def test_case_can_be_ignored(text: str) -> None:
    assert compile_pattern(text, ignore_case=True).matches("Orders")
    assert not compile_pattern("^ORD").matches("Orders")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[:alpha:]", "only within a class"),
        ("[[:alpa:]]", "unknown POSIX class name 'alpa'"),
        ("[a", "missing terminating ]"),
        ("(?!a)" + "(" * 400 + ")" * 400, "nested more than 50 deep"),
        ("(?!a)(", "missing closing parenthesis"),
        ("(?!a))", "unmatched closing parenthesis"),
        ("(?!x)(?:a{100}){100}", "more than 1000 parts"),
        ("(?!x)(?:(?:a{100}){100}){100}", "more than 16384 parts"),
        ("(?!x)(?:a{1000}(?#()){1000}", "more than 16384 parts"),
        ("(?!x)(?R)", "not supported"),
        ("(?!x)(*FAIL)", "not supported"),
        ("(?x)(?!x)(?:a{1000}#)(\n){1000}", "not supported"),  # a comment would hide the group
        ("(?!x)" + "a" * 1000, "may have 1000 octets"),
        ("a" * 17_000, "at most 16384"),
        ("(a?){0,1000}" * 100, "more than 16384 parts"),
        ("*", "nothing to repeat"),
    ],
)
def test_refused_with_a_reason(text: str, why: str) -> None:
    with pytest.raises(ValueError, match="regular expression") as caught:
        compile_pattern(text)
    assert why in str(caught.value)
    assert len(str(caught.value)) < 500


def test_exponential_search_is_ended() -> None:
    pattern = compile_pattern(r"(?=(a|a)+$)(a+)+\1\z")
    with pytest.raises(TooSlow):
        pattern.matches("a" * 60 + "b")  # years otherwise
    assert pattern.matches("aaa") is not None


PARTS = st.sampled_from(
    [*"ab.^$|?*+()[]{}\\-:#<>=!,19", "(?=", "(?!", "(?<=", "(?:", "(?i)", "(?P<n>", "[[:alpha:]]", "{1000}"]
    + ["{2,}", "{,5}", r"\Q", r"\E", r"\1", r"\p{L}", "(?#", "[^", "é", "\x00", "(?R)", "{e<3}", r"\x"]
)


@settings(max_examples=500, deadline=None)
@given(st.lists(PARTS, max_size=60), st.booleans(), st.text(max_size=20))
@example(["(?!x)", "(?:", "a", "{1000}", ")", "{1000}"], False, "a")
def test_anything_is_a_pattern_or_refused(parts: list[str], ignore_case: bool, name: str) -> None:
    try:
        pattern = compile_pattern("".join(parts), ignore_case=ignore_case)
    except ValueError:
        return
    with contextlib.suppress(TooSlow):
        pattern.matches(name)


MEMORY = """
import resource, sys
from vhosts.patterns import compile_pattern
compile_pattern("(?!x)a")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for text in (
    "(?!x)(?:(?:(?:a{1000}){1000}){1000}){1000}", "(?=a)(?:a?){4000000000}b", "(?=a){9}(?:(a{30}){30}){1}",
    "(?:a{999}){999}(?!x)", "(a?){0,1000}" * 1000, "(?!a)" + "(" * 50 + "a" + "{9})" * 50,
    "(?=(?:a{31}){31})", "(?<=a{900})b",
):
    try:
        compile_pattern(text)
    except ValueError:
        pass
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_compiling_takes_little_memory() -> None:
    """The backtracking engine writes repeats out: two short lines of a pattern filled a gibibyte."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))

    done = subprocess.run(
        [sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True, preexec_fn=limit
    )
    assert int(done.stdout) < 8 << 10


def test_a_small_budget_refuses_large_patterns() -> None:
    compile_pattern("(a?){0,500}")
    with pytest.raises(ValueError, match="too large"):
        compile_pattern("(a?){0,500}", memory_bytes=8 << 10)

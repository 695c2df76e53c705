"""The nearest of the names that there are."""

from __future__ import annotations

import pytest

from amqp_router.nearest import did_you_mean


@pytest.mark.parametrize(
    ("name", "known", "says"),
    [
        ("theer", ["from", "there", "then"], "did you mean there?"),
        ("ob", ["jobs", "there"], "did you mean jobs?"),
        ("xobs", ["jobs", "there"], "did you mean jobs?"),
        ("JOBS", ["Jobs"], "did you mean Jobs?"),
        ("admin", ["administrator", "monitoring"], "did you mean administrator?"),
        (
            "a-long-name.of-a-service.wrong-at-its-end-x",
            ["a-long-name.of-a-service.wrong-at-its-end"],
            "did you",
        ),
        ("zz", ["jobs", "there"], ""),
        ("jobs", [], ""),
        ("jobs", [""], ""),
        ("", ["jobs"], ""),
    ],
)
def test_the_nearest_name_is_suggested_if_it_is_near(name: str, known: list[str], says: str) -> None:
    assert did_you_mean(name, known).startswith(says)
    assert bool(did_you_mean(name, known)) == bool(says)


def test_the_name_is_spelt_as_the_caller_says() -> None:
    assert did_you_mean("job", ["jobs"], repr) == "did you mean 'jobs'?"


def test_very_many_names_that_are_long_and_alike_are_not_all_compared() -> None:
    """A page asked for a queue that is not there held the loop for half a second."""
    long = "x" * 200
    compared = 0

    class Name(str):
        def __getitem__(self, at: object) -> str:
            nonlocal compared
            compared += 1
            return super().__getitem__(at)  # type: ignore[index]

        def lower(self) -> str:
            return self

    names = [Name(f"q{long}{number:05}") for number in range(20_000)]
    assert did_you_mean(f"q{long}00007z", names).startswith(f"did you mean q{long}0000")
    assert compared < 10_000 + 200 * 256 + 32 * 4 * 256

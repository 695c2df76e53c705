import functools
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.vhosts.fakes import FakeQueue
from vhosts.exchanges.exchange import Binding, Exchange
from vhosts.exchanges.topic_trie import TopicTrie

# Measured on RabbitMQ 3.10.8: which of KEYS each pattern matches.
KEYS = ["", "a", "a.b", "a.b.c", ".", "a.", ".a", "..", "a..b", "a.."]
MEASURED = {
    "": "1000000000",
    "#": "1111111111",
    "*": "0100000000",
    "*.*": "0010111000",
    "#.#": "1111111111",
    "#.*": "0111111111",
    "*.#": "0111111111",
    "a.#": "0111010011",
    "#.a": "0100001000",
    "a.*": "0010010000",
    "a.*.b": "0000000010",
    "a.#.b": "0010000010",
    "*.": "0000110000",
    ".*": "0000101000",
    ".": "0000100000",
    "a..b": "0000000010",
    "a.#.#": "0111010011",
    "#.*.#": "0111111111",
    "*.*.*": "0001000111",
    "a*": "0000000000",
    "#a": "0000000000",
    "a.#.*": "0011010011",
    "*.#.*": "0011111111",
}
FURTHER = [
    ("*.*.*", "a.b.c", True),
    ("*.*.*", "...", False),
    ("*.stock.#", "usd.stock", True),
    ("*.stock.#", "eur.stock.db", True),
    ("*.stock.#", "stock.nasdaq", False),
    ("a*", "a*", True),
    ("#a", "#a", True),
    ("a*", "ab", False),
]


def words(key: str) -> tuple[str, ...]:
    return tuple(key.split(".")) if key else ()


def matches(pattern: str, key: str) -> bool:
    """The rule as the specification words it, without a thought for speed."""

    @functools.cache
    def rest(p: tuple[str, ...], k: tuple[str, ...]) -> bool:
        if not p:
            return not k
        if p[0] == "#":
            return rest(p[1:], k) or (bool(k) and rest(p, k[1:]))
        return bool(k) and p[0] in ("*", k[0]) and rest(p[1:], k[1:])

    return rest(words(pattern), words(key))


EXCHANGE = Exchange("t", "topic")
#: What each binding was made for.
MADE: dict[Binding, object] = {}


@functools.cache
def made(thing: object) -> Binding:
    """The binding for ``thing``, always the same."""
    binding = Binding(EXCHANGE, FakeQueue(), "", {})
    MADE[binding] = thing
    return binding


def matched(trie: TopicTrie, key: str) -> list[object]:
    """What the bindings were made for that a match finds, less what it tells of its work."""
    return [MADE[found] for found in trie.match(key) if not isinstance(found, int)]


def visits(trie: TopicTrie, key: str) -> int:
    """The nodes that a match visits."""
    return sum(told for told in trie.match(key) if isinstance(told, int))


def single(pattern: str, key: str) -> bool:
    trie = TopicTrie()
    trie.insert(pattern, made("it"))
    return matched(trie, key) == ["it"]


@pytest.mark.parametrize("pattern", MEASURED)
def test_table_measured_on_rabbitmq(pattern):
    row = "".join("01"[single(pattern, key)] for key in KEYS)
    assert row == MEASURED[pattern]
    assert row == "".join("01"[matches(pattern, key)] for key in KEYS)


@pytest.mark.parametrize(("pattern", "key", "expected"), FURTHER)
def test_further_cases(pattern, key, expected):
    assert single(pattern, key) is expected
    assert matches(pattern, key) is expected


WORDS = st.sampled_from(["a", "b", "", "a*", "é"])
some_keys = st.lists(WORDS, max_size=6).map(".".join)
some_patterns = st.lists(st.one_of(WORDS, st.sampled_from(["*", "#"])), max_size=6).map(".".join)


@given(st.lists(some_patterns, max_size=12), st.lists(some_keys, min_size=1, max_size=6))
def test_trie_matches_as_the_rule_says(patterns, keys):
    trie = TopicTrie()
    for number, pattern in enumerate(patterns):
        trie.insert(pattern, made(number))
    for key in keys:
        expected = [number for number, pattern in enumerate(patterns) if matches(pattern, key)]
        assert sorted(matched(trie, key)) == expected


class TrieMachine(RuleBasedStateMachine):
    """Insert and remove in any order; nothing is left of what was removed."""

    def __init__(self) -> None:
        super().__init__()
        self.trie = TopicTrie()
        self.held: dict[str, set[int]] = {}

    @rule(pattern=some_patterns, value=st.integers(0, 3))
    def insert(self, pattern: str, value: int) -> None:
        self.trie.insert(pattern, made(value))
        self.held.setdefault(pattern, set()).add(value)

    @rule(pattern=some_patterns, value=st.integers(0, 3))
    def remove(self, pattern: str, value: int) -> None:
        if value in self.held.get(pattern, ()):
            self.trie.remove(pattern, made(value))
            self.held[pattern].discard(value)
            if not self.held[pattern]:
                del self.held[pattern]
        else:
            with pytest.raises(KeyError):
                self.trie.remove(pattern, made(value))

    @rule(key=some_keys)
    def match(self, key: str) -> None:
        expected = [value for pattern, held in self.held.items() if matches(pattern, key) for value in held]
        assert sorted(matched(self.trie, key)) == sorted(expected)

    @invariant()
    def nothing_is_left(self) -> None:
        if not self.held:
            assert self.trie.is_empty()


TestTrieMachine = TrieMachine.TestCase


def test_many_hashes_take_no_longer_than_the_key():
    trie = TopicTrie()
    trie.insert(".".join(["#", "a"] * 60 + ["b"]), made("never"))
    trie.insert(".".join(["#", "a"] * 60), made("always"))
    # Trying every way to share 128 words among 60 wildcards would not end.
    key = ".".join(["a"] * 128)
    assert matched(trie, key) == ["always"]
    assert visits(trie, key) <= 128 * 120


def all_rows(depth: int) -> list[str]:
    return [".".join("a" if number >> bit & 1 else "*" for bit in range(depth)) for number in range(2**depth)]


def test_what_follows_a_hash_is_matched_once_and_not_at_every_word():
    trie = TopicTrie()
    for row in all_rows(11):
        trie.insert(f"#.{row}.z", made(row))
    nodes = 2**12 + 1
    key = ".".join(["a"] * 114)
    assert visits(trie, key) <= 2 * 114
    assert visits(trie, key + ".z") <= nodes + 2 * 115
    assert len(matched(trie, key + ".z")) == 2**11
    assert len(matched(trie, "a." * 10 + "b.z")) == 2**10


def test_more_patterns_with_hashes_elsewhere_are_not_visited():
    trie = TopicTrie()
    trie.insert("a.#.z", made("it"))
    before = visits(trie, "a.b.c.d.z")
    for number in range(1000):
        trie.insert(f"{number}.#", made(number))
        trie.insert(f"#.{number}", made(number))
        trie.insert(f"a.#.{number}.#.z", made(number))
    assert visits(trie, "a.b.c.d.z") <= 3 * before + 10
    assert matched(trie, "a.b.c.d.z") == ["it"]


def test_two_matches_at_a_time_do_not_disturb_each_other():
    trie = TopicTrie()
    for row in all_rows(6):
        trie.insert(f"#.{row}.#.a", made(row))
        trie.insert(f"#.{row}", made(row))
    keys = ["a." * 20 + "a", "b." * 9 + "a", "a.b." * 9 + "a"]
    alone = [list(trie.match(key)) for key in keys]
    running = [trie.match(key) for key in keys]
    found = [[] for _ in keys]
    for _ in range(max(map(len, alone))):
        for each, match in zip(found, running, strict=True):
            each.extend(itertools.islice(match, 1))
    assert found == alone


def test_a_match_tells_of_its_work_while_it_works():
    trie = TopicTrie()
    for row in all_rows(10):
        trie.insert(f"#.{row}.#.{row}.y", made(row))
    told = [each for each in trie.match("a." * 60 + "z") if isinstance(each, int)]
    assert max(told) <= 64


hard_words = st.sampled_from(["a", "b"])
hard_patterns = st.lists(st.sampled_from(["a", "*", "#", "#"]), max_size=9).map(".".join)
hard_keys = st.lists(hard_words, max_size=12).map(".".join)


@given(st.lists(hard_patterns, max_size=30, unique=True), st.lists(hard_keys, min_size=1, max_size=4))
def test_patterns_of_wildcards_match_as_the_rule_says(patterns, keys):
    trie = TopicTrie()
    for pattern in patterns:
        trie.insert(pattern, made(pattern))
    for key in keys:
        found = matched(trie, key)
        assert len(found) == len(set(found))
        assert set(found) == {pattern for pattern in patterns if matches(pattern, key)}
        nodes = 1 + sum(len(words(pattern)) + 1 for pattern in patterns)
        assert visits(trie, key) <= nodes * (len(words(key)) + 2)
    for pattern in patterns:
        trie.remove(pattern, made(pattern))
    assert trie.is_empty()

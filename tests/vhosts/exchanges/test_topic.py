import functools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from vhosts.exchanges.topic_trie import TopicTrie

# semantics 2.5, measured on RabbitMQ 3.10.8: which of KEYS each pattern matches.
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


def single(pattern: str, key: str) -> bool:
    trie = TopicTrie()
    trie.insert(pattern, "it")
    return trie.match(key) == ["it"]


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
        trie.insert(pattern, number)
    for key in keys:
        expected = [number for number, pattern in enumerate(patterns) if matches(pattern, key)]
        assert sorted(trie.match(key)) == expected


class TrieMachine(RuleBasedStateMachine):
    """Insert and remove in any order; nothing is left of what was removed."""

    def __init__(self) -> None:
        super().__init__()
        self.trie = TopicTrie()
        self.held: dict[str, set[int]] = {}

    @rule(pattern=some_patterns, value=st.integers(0, 3))
    def insert(self, pattern: str, value: int) -> None:
        self.trie.insert(pattern, value)
        self.held.setdefault(pattern, set()).add(value)

    @rule(pattern=some_patterns, value=st.integers(0, 3))
    def remove(self, pattern: str, value: int) -> None:
        if value in self.held.get(pattern, ()):
            self.trie.remove(pattern, value)
            self.held[pattern].discard(value)
            if not self.held[pattern]:
                del self.held[pattern]
        else:
            with pytest.raises(KeyError):
                self.trie.remove(pattern, value)

    @rule(key=some_keys)
    def match(self, key: str) -> None:
        expected = [value for pattern, held in self.held.items() if matches(pattern, key) for value in held]
        assert sorted(self.trie.match(key)) == sorted(expected)

    @invariant()
    def nothing_is_left(self) -> None:
        if not self.held:
            assert self.trie.is_empty()


TestTrieMachine = TrieMachine.TestCase


def test_many_hashes_take_no_longer_than_the_key():
    trie = TopicTrie()
    trie.insert(".".join(["#", "a"] * 60 + ["b"]), "never")
    trie.insert(".".join(["#", "a"] * 60), "always")
    # Trying every way to share 128 words among 60 wildcards would not end.
    assert trie.match(".".join(["a"] * 128)) == ["always"]

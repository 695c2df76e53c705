"""A trie of topic patterns: finds the patterns that match a routing key.

A pattern consists of words between dots. ``*`` stands for one word and ``#`` for any number of words, also
none. A wildcard is a whole word. Empty words count as words, but the empty key has none.

The part of a pattern before its first ``#`` must match the front of the key, and the part after its last
``#`` the back. The part after the last ``#`` is therefore stored backwards in a trie of its own and matched
from the key's end. A pattern with one ``#``, as most have, costs no more than its own words, wherever the
``#`` begins. Only words between two ``#`` are tried at every word of the key. A key is matched word by word,
with the set of all nodes reached so far, each once. Trying every distribution of the words would take too
long.

A match is a generator, because clients can make patterns that keep it busy for long. It yields how many nodes
it has visited, and the caller may then give others their turn. Several matches can run at a time, and the
trie may change meanwhile: a match finds everything that is there from its beginning to its end.

Compiled: see ``topic_trie.pxd``.

Source: AMQP 0-9-1, section 3.1.3.3; details measured on RabbitMQ 3.10.8.
"""

from __future__ import annotations

from collections.abc import Iterator

from vhosts.exchanges.exchange import Binding
from vhosts.spread_map import FEW, SpreadMap, roomy

# A C integer where compiled (see topic_trie.pxd).
_CHILDREN_MAX = FEW
#: A match yields a number whenever it has visited this many nodes.
VISITS_TOLD = 64

#: The step from a pattern's last "#" to its last word, after which the words follow backwards. No word has a
#: dot.
_BACK = ".#"


class Node:
    """A node is reached when the pattern's words up to here match; below ``back``, its words from the end to
    here.
    """

    __slots__ = ("after_any", "after_one", "back", "children", "many_children", "values")

    def __init__(self) -> None:
        #: Next nodes by word; None if there are none, or too many for a dict.
        self.children: dict[str, Node] | None = None
        #: Next nodes by word since they became too many for a dict; not empty.
        self.many_children: SpreadMap[str, Node] | None = None
        #: Next node by ``*``.
        self.after_one: Node | None = None
        #: Next node by a ``#`` that is not the pattern's last one.
        self.after_any: Node | None = None
        #: Next node by the pattern's last ``#``; the words after it follow backwards.
        self.back: Node | None = None
        #: Values inserted with the pattern that ends here; None if there are none.
        self.values: SpreadMap[Binding, None] | None = None


class TopicTrie:
    """Values by pattern. A value is in the trie once for each pattern with which it was inserted."""

    __slots__ = ("_root",)

    def __init__(self) -> None:
        self._root = Node()

    def insert(self, pattern: str, value: Binding) -> None:
        """Return ``value`` for every key that ``pattern`` matches."""
        node = self._root
        for step in _steps(pattern):
            node = self._next_or_new(node, step)
        if node.values is None:
            node.values = SpreadMap()
        node.values[value] = None

    def remove(self, pattern: str, value: Binding) -> None:
        """Undo ``insert``, and remove the nodes that are no longer needed.

        Raises:
            KeyError: it was not inserted.
        """
        steps = _steps(pattern)
        path = [self._root]
        for step in steps:
            node = self._next(path[len(path) - 1], step)
            if node is None:
                raise KeyError(pattern)
            path.append(node)
        last = path[len(path) - 1]
        if last.values is None:
            raise KeyError(pattern)
        del last.values[value]
        if not last.values:
            last.values = None
        for index in range(len(steps), 0, -1):
            if not self._is_bare(path[index]):
                break
            self._cut(path[index - 1], steps[index - 1])

    def match(self, key: str) -> Iterator[Binding | int]:
        """The values of all patterns that match ``key``.

        Numbers between the values say how many nodes were visited since the last number. Values are never
        numbers.
        """
        node: Node
        words: list[str] = _words(key)
        reached: list[Node] = [self._root]
        loops: list[Node] = []  # nodes after a "#": once reached, they are reached again by any further word
        # Ends of patterns, and how many words at the key's front they may not use.
        backs: list[tuple[Node, int]] = []
        seen: set[Node] = set()  # nodes of these two lists; the first visit leaves the most words
        visited = 0
        position = 0
        while True:
            for node in reached:
                if node.after_any is not None or node.back is not None:
                    self._past_any(node, position, loops, backs, seen)
            if position == len(words):
                break
            word = words[position]
            position += 1
            before = reached
            reached = []
            for nodes in (before, loops):
                for node in nodes:
                    self._step(node, word, reached)
                    visited += 1
                    if visited >= VISITS_TOLD:
                        yield visited
                        visited = 0
            if not reached and not loops:
                break
        if position == len(words):
            for node in reached:
                if node.values is not None:
                    yield from node.values.steady_keys()  # values may be added and removed meanwhile
        for back, least in backs:
            reached = [back]
            position = len(words)
            while reached:
                position -= 1
                before = reached
                reached = []
                for node in before:
                    if node.values is not None:
                        yield from node.values.steady_keys()
                    if position >= least:
                        self._step(node, words[position], reached)
                    visited += 1
                    if visited >= VISITS_TOLD:
                        yield visited
                        visited = 0
        yield visited

    def is_empty(self) -> bool:
        """Whether the trie is empty."""
        return self._is_bare(self._root)

    def _step(self, node: Node, word: str, reached: list[Node]) -> None:
        """Put the nodes after ``node`` by ``word`` into ``reached``."""
        if node.after_one is not None:
            reached.append(node.after_one)
        if node.children is not None:
            child = node.children.get(word)
            if child is not None:
                reached.append(child)
        elif node.many_children is not None:
            child = node.many_children.bucket_of(hash(word)).get(word)
            if child is not None:
                reached.append(child)

    def _past_any(
        self, node: Node, position: int, loops: list[Node], backs: list[tuple[Node, int]], seen: set[Node]
    ) -> None:
        """Note that the node behind ``node``'s ``#`` was reached after ``position`` words of the key."""
        while True:
            if node.back is not None and node.back not in seen:
                seen.add(node.back)
                backs.append((node.back, position))
            if node.after_any is None or node.after_any in seen:
                return
            node = node.after_any
            seen.add(node)
            if node.after_one is not None or node.children is not None or node.many_children is not None:
                loops.append(node)

    def _next(self, node: Node, step: str) -> Node | None:
        if step == "*":
            return node.after_one
        if step == "#":
            return node.after_any
        if step == _BACK:
            return node.back
        found: Node | None = None
        if node.children is not None:
            found = node.children.get(step)
        elif node.many_children is not None:
            found = node.many_children.bucket_of(hash(step)).get(step)
        return found

    def _next_or_new(self, node: Node, step: str) -> Node:
        found = self._next(node, step)
        if found is not None:
            return found
        new = Node()
        if step == "*":
            node.after_one = new
        elif step == "#":
            node.after_any = new
        elif step == _BACK:
            node.back = new
        elif node.many_children is not None:
            node.many_children[step] = new
        else:
            if node.children is None:
                node.children = {}
            node.children[step] = new
            if len(node.children) > _CHILDREN_MAX:
                node.many_children = roomy(node.children)  # type: ignore[assignment]  # no dict, as it is so full
                node.children = None
        return new

    def _cut(self, node: Node, step: str) -> None:
        if step == "*":
            node.after_one = None
        elif step == "#":
            node.after_any = None
        elif step == _BACK:
            node.back = None
        else:
            children = node.children
            if children is None:
                assert node.many_children is not None
                del node.many_children[step]
                if not node.many_children:
                    node.many_children = None
                return
            del children[step]
            if not children:
                node.children = None

    def _is_bare(self, node: Node) -> bool:
        """Whether no pattern ends at ``node`` or goes on from it."""
        return (
            node.values is None
            and node.children is None
            and node.many_children is None
            and node.after_one is None
            and node.after_any is None
            and node.back is None
        )


def _words(key: str) -> list[str]:
    return key.split(".") if key else []


def _steps(pattern: str) -> list[str]:
    """The steps of ``pattern`` from the root: its words, with those after the last ``#`` backwards."""
    words = _words(pattern)
    if "#" not in words:
        return words
    last = len(words) - 1 - words[::-1].index("#")
    return [*words[:last], _BACK, *words[:last:-1]]

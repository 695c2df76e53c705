"""A trie of topic patterns: what matches a routing key, in time bounded by the trie and the key.

A pattern is a row of words between dots; ``*`` stands for one word and ``#`` for any number, none included.
Wildcards are whole words; empty words are words, but the empty key has none.

A key is matched word by word, with all nodes that can have been reached so far. A node counts once however
many ways lead to it, so ``#.a.#.a.#`` costs no more than its length: recursion over ``#`` would try every
way to share out the words.

Compiled: see ``topic_trie.pxd``.

Source: semantics 2.5 (table measured on RabbitMQ 3.10.8).
"""

from __future__ import annotations

from typing import Any


class Node:
    """The words of a pattern up to here have matched."""

    __slots__ = ("after_any", "after_one", "children", "is_any", "mark", "values")

    def __init__(self) -> None:
        #: Next nodes by word; None while there are none.
        self.children: dict[str, Node] | None = None
        #: Next node by ``*``.
        self.after_one: Node | None = None
        #: Next node by ``#``.
        self.after_any: Node | None = None
        #: Reached by ``#``, so any further word leads here again.
        self.is_any = False
        #: What was inserted with the pattern that ends here; None while there is nothing.
        self.values: dict[Any, None] | None = None
        #: The step of a match that reached this node last.
        self.mark = 0


class TopicTrie:
    """Values by pattern. A value stands in the trie once for each pattern it is inserted with."""

    __slots__ = ("_mark", "_root")

    def __init__(self) -> None:
        self._root = Node()
        self._mark = 0

    def insert(self, pattern: str, value: Any) -> None:
        """Return ``value`` for every key that ``pattern`` matches."""
        node = self._root
        for word in _words(pattern):
            node = self._next_or_new(node, word)
        if node.values is None:
            node.values = {}
        node.values[value] = None

    def remove(self, pattern: str, value: Any) -> None:
        """Undo ``insert``, and drop the nodes that nothing needs any more.

        Raises:
            KeyError: it was not inserted.
        """
        words = _words(pattern)
        path = [self._root]
        for word in words:
            node = self._next(path[len(path) - 1], word)
            if node is None:
                raise KeyError(pattern)
            path.append(node)
        last = path[len(path) - 1]
        if last.values is None:
            raise KeyError(pattern)
        del last.values[value]
        if not last.values:
            last.values = None
        for index in range(len(words), 0, -1):
            if not self._is_bare(path[index]):
                break
            self._cut(path[index - 1], words[index - 1])

    def match(self, key: str) -> list[Any]:
        """The values of all patterns that match ``key``."""
        reached: list[Node] = []
        self._mark += 1
        self._reach(self._root, reached)
        for word in _words(key):
            self._mark += 1
            before = reached
            reached = []
            for node in before:
                if node.is_any:
                    self._reach(node, reached)
                if node.after_one is not None:
                    self._reach(node.after_one, reached)
                if node.children is not None:
                    child = node.children.get(word)
                    if child is not None:
                        self._reach(child, reached)
            if not reached:
                return []
        found: list[Any] = []
        for node in reached:
            if node.values is not None:
                found.extend(node.values)
        return found

    def is_empty(self) -> bool:
        """Whether nothing is left of what was inserted."""
        return self._is_bare(self._root)

    def _reach(self, node: Node, reached: list[Node]) -> None:
        """``node``, and what follows it by ``#`` for no word at all, have been reached in this step."""
        mark = self._mark
        while node.mark != mark:
            node.mark = mark
            reached.append(node)
            if node.after_any is None:
                return
            node = node.after_any

    def _next(self, node: Node, word: str) -> Node | None:
        if word == "*":
            return node.after_one
        if word == "#":
            return node.after_any
        if node.children is None:
            return None
        return node.children.get(word)

    def _next_or_new(self, node: Node, word: str) -> Node:
        found = self._next(node, word)
        if found is not None:
            return found
        new = Node()
        if word == "*":
            node.after_one = new
        elif word == "#":
            new.is_any = True
            node.after_any = new
        else:
            if node.children is None:
                node.children = {}
            node.children[word] = new
        return new

    def _cut(self, node: Node, word: str) -> None:
        if word == "*":
            node.after_one = None
        elif word == "#":
            node.after_any = None
        else:
            children = node.children
            assert children is not None
            del children[word]
            if not children:
                node.children = None

    def _is_bare(self, node: Node) -> bool:
        """Whether no pattern ends at ``node`` or goes on from it."""
        return (
            node.values is None
            and node.children is None
            and node.after_one is None
            and node.after_any is None
        )


def _words(key: str) -> list[str]:
    return key.split(".") if key else []

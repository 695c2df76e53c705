"""A node over a simulated disk, its clients, and beside it the lists that say how messages must end.

As in ``tests.model.node`` nothing runs by itself, so a seed is a run. This walk is about what ends a message
or a queue without a consumer's will: time, limits, returns, rejections, timeouts, and policies that change
all of them.

- The model is in ``lists``, which has a ``queue`` for each of the node's; its messages say what ``says`` has,
  and queues obey ``rules``.
- The node and its ``clients`` are in ``setting``. ``hearing`` compares what the clients get with the lists,
  and ``world`` all the rest after every move.
- The moves are functions over a ``World``: ``queues``, ``publishing``, ``consuming``, ``settling``,
  ``closing``, ``waiting``, ``late``, ``ends`` and ``starts``.
- ``walk`` makes random moves. ``choices`` and ``closing`` avoid those after which several orders are right.
"""

"""A whole node over a simulated disk, clients joined to it, and next to them queues made of lists.

Nothing runs by itself: the loop, the sync, the definition store, the clock and the disk move when a move says
so, so a seed is a run. ``walk`` makes random moves from a seed (fast), and ``../test_model.py`` lets
hypothesis choose them.

- The model is in ``shadow``, the node and its clients are in ``setting``. ``hearing`` compares what the
  clients get with the model, and ``world`` all the rest after every move.
- The moves are functions over a ``World``: ``declaring``, ``publishing``, ``consuming``, ``settling``,
  ``closing``, ``storing``, ``waiting``, ``ends`` and ``starts``.

After every start:

- a confirmed message that was not settled is there; what was settled durably is not;
- what is there was published to that life of that queue, persistent, in the order of publishing;
- after a clean stop nothing is missing, and redelivered is what was returned; after a crash, all;
- a queue exists if its declaration was answered, and does not if its deletion was.
"""

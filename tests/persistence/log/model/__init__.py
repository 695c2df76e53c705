"""A node's logs over a simulated disk, and next to them a model made of dictionaries.

``World`` has both and compares them. ``walk`` makes random moves from a seed (fast), and ``../test_model.py``
lets hypothesis choose them. After every move that reads, and after every restart, the logs must agree with
the model:

- a confirmed message that was never settled is there, with its content, after whatever happened;
- a message whose settle was durable is gone;
- what is there was appended at that offset with that content, in that order;
- after a crash everything is redelivered; after a clean stop exactly what was returned;
- a start raises the epoch above every one used before;
- times never fall within a segment, and what is written after a start has the clock's time, wherever the
  clock stood before.
"""

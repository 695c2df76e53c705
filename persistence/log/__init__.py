"""The logs of queues and the routing logs. ``FORMAT.md`` has their layout on disk.

``format`` knows the bytes, ``sync`` makes them durable, ``queue`` and ``routing`` are the two kinds of logs,
and ``offline`` reads a data directory without changing it. Each imports only from those before it.
"""

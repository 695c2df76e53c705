"""The broker's objects as RabbitMQ's HTTP API shows them: one function per kind of object, one dict each.

If a figure of RabbitMQ has no counterpart here, it has a neutral value (0, an empty list), and a comment says
so. Figures are never invented.
"""

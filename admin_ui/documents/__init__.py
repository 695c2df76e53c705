"""The broker's objects as RabbitMQ's HTTP API shows them: one function per kind of object, one dict each.

Where RabbitMQ has a figure that has no counterpart here, its neutral value stands (0, an empty list), with a
comment that says so; figures are never made up.
"""

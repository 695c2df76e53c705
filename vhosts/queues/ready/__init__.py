"""Ready orders: which of a queue's messages is delivered next.

``order.ReadyOrder`` is what a queue asks of one; ``fifo.FifoOrder`` is the order of AMQP.
"""

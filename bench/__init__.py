"""What a message costs: the load generator's scenarios against our broker and, in the same run, RabbitMQ.

The figure to compare is broker CPU in µs per message; rates and latencies also depend on what else runs here.
"""

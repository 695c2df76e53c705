"""AMQP 0-9-1 broker: command line, options, listeners and the node."""

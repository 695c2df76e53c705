"""AMQP 0-9-1 as bytes: frames, methods, fields, properties. No I/O."""

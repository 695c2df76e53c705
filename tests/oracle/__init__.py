"""What RabbitMQ 3.10.8 answered when it was asked, by area; errors, routing and the handshake are in
``tests.interop``.

``AMQP_ROUTER_TEST_BROKER=rabbitmq pytest tests/oracle`` asks RabbitMQ again.
"""

"""One AMQP channel: publishing, confirms, consuming, acknowledgements, declarations."""

"""Fuzzers: AMQP, TLS and HTTP against a broker process, every kind of file against a start.

``make fuzz`` runs them. The seed and its number determine a case. A finding is made as small as possible and
saved with all that is needed to replay it.
"""

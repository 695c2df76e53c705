"""Queues: ready messages, consumers, dispatch."""

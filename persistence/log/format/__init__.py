"""The bytes of the logs: batches and their payloads, segments, indexes, checkpoints, settle state."""

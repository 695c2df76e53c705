"""The bytes of the logs: batches and their payloads, segments and their scan, checkpoints, settle state."""

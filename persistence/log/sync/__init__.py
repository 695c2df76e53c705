"""Group commit: writes the batches of dirty logs, syncs them, and says how far each log is durable."""

"""Reads the broker's logs as tables, for Spark and for plain Arrow. Needs nothing of the broker but its files."""

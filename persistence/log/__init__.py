"""The partitioned queue log (see FORMAT.md)."""

"""Reads the logs of a data directory without a broker: verification and salvage."""

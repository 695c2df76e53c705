"""Rates, sampled from counters that only grow."""

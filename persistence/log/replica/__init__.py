"""Copies of a log on other nodes: what a leader hands out, and what a follower does with it."""

"""The routing logs: an event for every publish, written in a thread of its own for outside readers."""

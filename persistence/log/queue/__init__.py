"""The log of a queue: append, settle, read, recovery, cleaning; and the page files of transient messages."""

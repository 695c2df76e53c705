"""Other people's clients, each in an environment of its own, against the broker: ``make interop``."""

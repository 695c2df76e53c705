"""Small programs that show that a door of the broker is open: each stands on a few interfaces."""

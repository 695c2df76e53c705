"""Who may log in and what they may touch."""

"""Search for the best states."""

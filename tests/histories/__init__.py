"""Histories: eight processes live on one board, whatever is done to them, and everything is held against the log."""

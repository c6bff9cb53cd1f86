"""Held files: what their holders left, what happened to them since, and how it is brought back."""

"""The agent clients: one module for each, which knows only the format of that client's hooks and settings."""

"""The vault: complete after any kill, safe for every name and text, and careful with what people write."""

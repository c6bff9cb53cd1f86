"""What only a browser that was signed in for acting may see: the terminal of an agent's session.

The cookie alone is not enough for it (see `browser_sessions`), so the page asks for it by a script that sends the write
key. The daemon knows nothing of terminals: `program` gives it the functions at assembly (see `Sources`).
"""

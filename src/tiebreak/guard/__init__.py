"""The guard enforces holds where edits happen: in the hooks of agent clients and of git.

Agent clients call it before and after each use of a tool (`client_hooks`), and git before each commit and push (`git`).
`tb init` sets both up. Each client has one module (`claude`, `codex`, …) that knows only the format of that client's
hooks and settings. What is decided is the same for all clients: `edits` before a file is written, `shell_changes` after
a shell command, `session_events` when a session or a turn begins or ends. The guard never writes to a file that an
agent edits.
"""

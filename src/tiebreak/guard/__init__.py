"""The guard enforces holds where edits happen: in the hooks of agent clients and of git.

Agent clients call it before and after each use of a tool (`client_hooks`), and git before each commit and push
(`commits.git_hook_checks`). `tb init` sets both up (`setup`). Each client has one module in `clients` that knows only
the format of that client's hooks and settings. What is decided is the same for all clients: `files.edits` before a file
is written, `files.shell_changes` around a shell command, `session_events` when a session or a turn begins or ends.

Held files are looked at by their names (`files.disk_state`), before and after each command (`files.interference`).
What holders left in them is recorded (`files.watched_files`, `files.left_contents`) and kept (`files.safety_copies`),
so that it can be found under other names (`files.moved_contents`) and brought back (`files.recovery`). One set of
rules says what may be committed (`commits.commit_rules`), whichever way a commit is made (`commits.commit`,
`commits.ref_updates`). The guard writes to a file that an agent edits only on `tb recover`.
"""

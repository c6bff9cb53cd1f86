"""The guard enforces holds where edits happen: in the hooks of agent clients and of git.

Agent clients call it before and after each use of a tool (`client_hooks`), and git before each commit and push
(`git_hook_checks`). `tb init` sets both up. Each client has one module (`claude`, `codex`, …) that knows only the
format of that client's hooks and settings. What is decided is the same for all clients: `edits` before a file is
written, `shell_changes` around a shell command, `session_events` when a session or a turn begins or ends.

Held files are looked at by their names (`disk_state`), before and after each command (`interference`). What holders
left in them is recorded (`watched_files`, `left_contents`) and kept (`safety_copies`), so that it can be found under
other names (`moved_contents`) and brought back (`recovery`). One rule says what may be committed (`commit_rules`),
whichever way a commit is made (`commit`, `ref_updates`). The guard writes to a file that an agent edits only on
`tb recover`.
"""

"""The guard: holds that are enforced where edits happen.

Agent clients call it before and after each tool (`hooks`), git calls it before each commit and push (`git`), and
`tb init` tells both to do so. Each client has one file, which knows that client's words and files and nothing else;
what is decided is the same for all of them: `edits` before a file is written, `shell` after a command, `sessions` at
the beginning and the end. It never writes to a file that an agent works on.
"""

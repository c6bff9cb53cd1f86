"""What other programs speak, translated into operations: coord, Workron, gptme and A2A.

Each module speaks for one program: `coord` and `workron` declare routes of the daemon, `a2a` too, `coord_commands` and
`gptme` are families of commands. Daemon and command line know nothing of them: `tiebreak.program` adds them.
"""

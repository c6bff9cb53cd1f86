"""Compatibility with other programs: their protocols and command lines, translated into tiebreak's operations.

- `coord`: coord's JSON-RPC, as routes of the daemon; `coord_commands`: its command line, as `tb coord …`.
- `workron`: Workron's REST interface, as routes of the daemon.
- `advice`: what a refused client of these two can do next, in its protocol's methods.
- `a2a`: the Agent2Agent protocol (A2A 1.0), as routes of the daemon.
- `gptme`: the command line of gptme's coordination, as `tb coordination …`.

The daemon and the command line know nothing of these modules. `tiebreak.program` adds them.
"""

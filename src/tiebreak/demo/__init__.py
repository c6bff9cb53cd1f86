"""`tb demo`: sixty seconds that show what tiebreak is for, and prove it from the log.

Sixteen agents, each a process of its own (`agent`), race for tasks and files on a temporary board (`stage`). One is
killed, one is paused until others have its work, one asks a person (`director`). In the end the proof is made from the
events and tasks of the board alone (`proof`): it does not know what the script wanted. `narrator` tells it on
the terminal. Nothing is left behind.

To learn the Python API, read `agent`.
"""

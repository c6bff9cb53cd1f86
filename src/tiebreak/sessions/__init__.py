"""Sessions: agents that run in terminals of their own, with at most one coordinator for each project.

Three things prevent a second coordinator, each where the one before has no effect:

1. the *spawn lock* (`spawn_lock`), a lock file. One process at a time may start a coordinator of a project, on this
   machine and for this user. It has the lock from its first look until the session is alive.
2. the *seat* (`operations.sessions`), a hold on the board. It works across users and machines.
3. the *fence*: when a coordinator has lost its seat, the board refuses its writes.

In each terminal a `supervisor` runs as the parent of the command. It renews the seat. Others tell whether a session is
alive by the supervisor's process: host, boot, pid and start time. No session is ever ended because of a guess.
"""

"""Sessions: agents in terminals of their own, and at most one coordinator for each project.

Three things keep a second coordinator out, each where the one before cannot reach:

1. the *gate* (`gate`), a lock file that one spawner at a time passes, from its first look until the session lives;
2. the *seat* (`operations.sessions`), a hold on the board, for other homes and other hosts;
3. the *fence*: a coordinator whose seat has passed on is refused whatever it writes.

A `supervisor` runs in each terminal as the parent of the command. It renews the seat, and it is what others look at to
know whether the session lives: process id, start time, boot and host. Nobody is ever ended because of a guess.
"""

"""Workers: they claim jobs, run them, heartbeat, and report, with the epoch of the attempt on every write.

`runner` is the loop: one thread that only looks after processes. `courier` is the other thread: it carries
everything for the board in one request at a time, so that whatever came together meanwhile goes as one batch.
`process` is one running command, `calls` and `callables` are the two ends of the pipe to the children that run
Python functions, `kin` knows which process belongs to which job, and `keeper` is the parent that outlives a
killed worker just long enough to leave nothing behind. `leftovers` ends what a worker left that was killed together
with its keeper, and `capacity` says how many jobs a worker that is short of something can run.

A lease is counted from before the request that got it was sent. A worker ends what it runs before that lease ends,
whether or not the board can be reached, so two workers never run one job at the same time.
"""

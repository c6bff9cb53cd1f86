"""Workers claim jobs, run them, send heartbeats and report; every write carries the epoch of the attempt.

- `loop`: the main thread, which never waits for the board; `options`: what its operator can choose.
- `running_attempts`: starts attempts, and ends them in time; `capacity`: how many fit while processes, memory or
  descriptors are short.
- `board_requests`: what the worker asks the board for; `request_sender`, `board_watcher`: the threads that wait for it.
- `attempt`, `output`, `pending_reports`: one attempt at a job, what it writes, and what the board has still to be told.
- `command_runner`, `command_process`: jobs that are shell commands.
- `function_runner`, `function_process`, `function_child`: jobs that are Python functions. They run in child processes;
  `function_process` is the worker's end of the pipes, `function_child` the child's.
- `job_processes`: which process belongs to which job.
- `keeper`: the parent process, which cleans up if the worker is killed.
- `register`, `leftover_processes`: how another worker cleans up if worker and keeper are both killed.

A worker counts a lease from the moment before it sent the request for it, and ends the job before the lease ends, even
if the board cannot be reached. So two workers never run one job at the same time.
"""

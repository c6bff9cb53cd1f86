"""Limits: every duration, size and count that is part of the interface, each with its reason.

Every default and every limit of an operation is written here once. The operations, the Python API, the command line,
the daemon, the tools for models and the references all take the figures from here. Figures that no caller can notice,
such as how many rows a step of upkeep handles, stay beside the code that uses them.
"""

from __future__ import annotations

DAY = 86_400.0
"""Seconds."""

# ── How long a grant lasts by default ────────────────────────────────────────────────────────────────────────

CLAIM_LEASE = 300.0
"""A claim of a task: long enough for an agent to think, short enough that a dead one does not block others for long."""
HOLD_LEASE = 1800.0
"""A hold: edits come in bursts with long pauses, and a file that is freed too early costs a merge conflict."""
WORK_LEASE = 3600.0
"""`tb coordination work-claim`, as gptme's agents expect it."""
JOB_LEASE = 30.0
"""A job: its worker sends a heartbeat every few seconds, so this much silence means that the worker is dead."""
SEAT_LEASE = 60.0
"""The seat of a coordinator: its supervisor renews it every third of this."""
PLACE_LEASE = 30.0
"""A place in the wait queue: a waiter renews it while it waits, so a dead one soon stops blocking the others."""
FIRE_LEASE = 60.0
"""An instant of a schedule: firing takes milliseconds, so one that is not done by then was left by a dead process."""
RUN_LEASE = 30.0
"""A hold of `tb run`, which renews it by itself while the command runs."""
MIN_DURATION = 0.001
"""The shortest lease or time-out: board time has microseconds, but no process can do anything with less than this."""
MAX_JOB_LEASE = DAY
"""The longest lease of a job that a worker may ask for. The shortest is a second."""
MAX_LEASE = 7 * DAY
"""A lease that nobody renews for a week is a mistake, and blocks everybody else meanwhile."""

# ── Signs of life ────────────────────────────────────────────────────────────────────────────────────────────

HEARTBEAT = 5.0
"""The longest time between two heartbeats of a worker: several fit into `JOB_LEASE`, so one may be lost."""
STREAM_HEARTBEAT = 15.0
"""A stream of events that is silent this long gets a comment: proxies close streams that are silent for 30 s."""
ACTIVE = 60.0
"""An agent that was seen within this many seconds is `active`."""
IDLE = 1800.0
"""An agent that was seen within this many seconds is `idle`, otherwise `stale`."""
STALLED = 2 * 3600.0
"""A claim without a sign of progress for this long needs somebody to look at it."""
FORGOTTEN = DAY
"""An agent that was silent for this long is `gone`, even if nothing is known of its process."""

# ── How often, and how long between ──────────────────────────────────────────────────────────────────────────

ATTEMPTS = 3
"""How often a task may be claimed before it fails: once for the work, and twice in case of bad luck."""
MAX_ATTEMPTS = 1000
BACKOFF = 1.0
"""The wait before the second attempt; it doubles with each further one."""
MAX_BACKOFF = 3600.0
"""Where the doubling stops, so that a task runs again within an hour."""
MAX_DELAY = 3650 * DAY
"""The longest duration: ten years, far from where sums of microseconds could overflow."""
MAX_MOMENT = 2**40
"""The latest time, in Unix seconds: it fits into 64 bits as microseconds."""
DRAIN = 30.0
"""How long a worker lets its jobs finish when it is told to stop."""
JOB_GRACE = 5.0
"""Between SIGTERM and SIGKILL for a job that is ended, unless it says otherwise: time to clean up."""
PATIENCE = 60.0
"""How long a new session may take until it is alive: agents load slowly on a busy machine."""
SETTLE = 0.5
"""How long a new session must live to count as alive: one that cannot start ends sooner."""
STOP_PATIENCE = 10.0
"""How long a session may take to end by itself when it is asked to stop."""
SESSION_GRACE = 5.0
"""Between SIGTERM and SIGKILL for the command of a session."""
RUN_GRACE = 2.0
"""Between SIGTERM and SIGKILL for the command of `tb run` when its hold is lost: others have the hold already."""
KEPT = 30 * DAY
"""How long finished tasks and other history are kept before they may be pruned."""
MIN_ANSWER_KEPT, MAX_ANSWER_KEPT = 3600.0, DAY
"""How long the answer of a repeatable call is kept for callers that try again, whatever `upkeep.prune` is told."""
DEADLINE = 30.0
"""How long a call waits for the locks of others on a busy board before it is refused."""
READ_DEADLINE = 30.0
"""How long a read of a SQLite board may take: during a read SQLite cannot reset the WAL."""
RECEIPT = 10.0
"""Within what time a whole request must arrive at the daemon: a slow client must not keep a connection."""
DAEMON_PATIENCE = 10.0
"""How long `tb serve` waits for a daemon to start in the background, or to stop."""
LONGEST_WAIT = 60.0
"""How long one request may wait: proxies drop a silent request soon after."""
TOOL_WAIT = 50.0
"""How long a call of a tool may wait: most clients abort a call after a minute."""

# ── How many ─────────────────────────────────────────────────────────────────────────────────────────────────

MAX_COUNT = 100
"""How many tasks, jobs or instants one call may win: more would keep others waiting for the write lock."""
MAX_LIMIT = 1000
"""How many rows one answer may have. For more, a caller asks again with the last number."""
MAX_HOLDS = 100_000
"""How many holds one answer may have: whoever checks files against them has to see them all at one moment."""
LISTED = 100
"""How many rows an answer has by default."""
SHOWN = 50
"""How many rows a command shows by default: as many as a person can look through."""
MOST_COUNTED = 10_000
"""Where a count stops: no person needs to know more exactly, and on a large board it would cost a look at every row."""
SENTENCES = 200
"""How many sentences (`why`) or nodes (a graph) an answer has by default."""
INSTANTS = 5
"""How many future instants of a schedule are listed by default."""
RUNS = 20
"""How many past runs of a schedule are listed by default."""
FIRED = 10
"""How many instants of each schedule one call of `schedules.fire` wins by default."""
TOOL_COUNT = 20
"""How many tasks a model may claim at once: it can work on few."""
MAX_SLOTS = 10_000
"""How many slots a pool may have, and how many tasks of one group may run at once."""
MAX_LIST = 1000
"""How many entries a list in a call may have."""
MAX_IMPORTED = 10_000
"""How many tasks, dependencies and comments one call may import: all other writers wait for it."""
MOST_IN_A_BATCH = 5000
"""How many calls one transaction may have: all other writers wait for it."""
MAX_PLACES = 1000
"""How many places the wait queue of a project may have: entering it reads them all."""
MAX_CONCURRENCY = 1000
"""How many jobs one worker may run at once."""
MAX_WORKERS = 256
"""How many workers `tb serve` may start."""
MAX_CLIENT_WAITS = 32
"""How many waits and streams one client may have open at a daemon, so that it leaves room for the others."""
MAX_OPEN_WAITS = 4096
"""How many waits and streams may be open at a daemon in all."""
MAX_CONNECTIONS = 8192
"""How many connections a daemon accepts: each open wait has one, and as many are left for calls."""
MAX_NUMBER = 2**53
"""The largest whole number that every JSON reader keeps exactly."""

# ── How large ────────────────────────────────────────────────────────────────────────────────────────────────

# In bytes of UTF-8, because databases count bytes. In PostgreSQL, one entry of an index may have 2,704 bytes: all its
# columns and a few bytes of overhead. The largest entries are those of
#   holds   (project, resource, slot)                          64 + 2,048 + 8         = 2,120
#   events  (subject, number), a subject may be a resource          2,048 + 8         = 2,056
#   tasks   (project, queue, callee, priority, number)         64 + 64 + 800 + 8 + 8  =   944
# and `tests/unit/test_index_sizes.py` adds up those of every index. A message's body is in an index of words, whose
# list of words PostgreSQL limits to a megabyte; a body of 64 KiB never reaches that.
MAX_NAME = 800
MAX_KEY = 800
MAX_LABEL = 64
MAX_AGENT = 2 * MAX_LABEL + 1
"""`name~session`."""
MAX_RESOURCE = 2048
MAX_PATH_OF_FILE = MAX_RESOURCE - len("file:")
"""The path in a resource `file:PATH`."""
MAX_NOTE = 4000
MAX_TEXT = 65_536
MAX_JSON = 262_144
MAX_DEPTH = 100
"""Levels of nesting in a JSON value: far below where any reader of JSON gives up."""
MAX_FOLDER = 4096
"""The kernel's own limit for a path."""
MAX_OUTPUT = 64 * 1024 * 1024
"""How much of a job's output may be kept."""
OUTPUT = 1024 * 1024
"""How much of it is kept by default."""
MAX_AMOUNT = 1 << 50
"""The largest bound on what a job may use: a petabyte, more than any machine has."""
MAX_BODY = 1024 * 1024
"""Bytes of the body of a request, and of a line of `tb batch`: room for several of the largest JSON values."""
MAX_HEAD = 32 * 1024
"""Bytes of the headers of a request."""
MAX_HEADERS = 100
"""How many headers a request may have."""
MAX_DOCUMENT = 1024 * 1024
"""Bytes of a handoff document."""
MIN_TOKEN = 32
"""Characters of a daemon's token: it must not be guessed."""
MIN_ONCE, MAX_ONCE = 8, 128
"""Characters of a `once` key, which makes a call repeatable: long enough that two are never equal by chance."""
MAX_TITLE = 200
"""Characters of a name that is made from something longer, such as a command: they always fit into `MAX_NAME`."""
MAX_GLOB = 256
"""Characters of a glob, not bytes: the time to compare two globs grows with both lengths."""

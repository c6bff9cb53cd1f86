"""How long, how large and how many: every figure that is part of the interface, each with its reason.

Whatever an operation takes when nothing is said, and whatever it refuses, stands here once. The operations, the Python
API, the command line, the daemon, the tools for models and the references all take the figures from here. Figures that
nobody outside can notice, such as how many rows a step of upkeep handles, stay beside the code that uses them.
"""

from __future__ import annotations

DAY = 86_400.0
"""Seconds."""

# ── How long a grant lasts when nobody says ──────────────────────────────────────────────────────────────────

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
"""A place in line: a waiter renews it while it waits, so a dead one soon stops blocking those behind it."""
FIRE_LEASE = 60.0
"""An instant of a schedule: firing takes milliseconds, so one that is not done by then was left by a dead process."""
RUN_LEASE = 30.0
"""A hold of `tb run`, which renews it by itself while the command runs."""
MIN_DURATION = 0.001
"""The shortest lease or time-out: board time has microseconds, but no process can do anything with less than this."""
MAX_LEASE = 7 * DAY
"""A lease that nobody renews for a week is a mistake, and blocks everybody else meanwhile."""

# ── Signs of life ────────────────────────────────────────────────────────────────────────────────────────────

HEARTBEAT = 5.0
"""Between two heartbeats of a worker at most: several fit into `JOB_LEASE`, so that one lost message costs nothing."""
STREAM_HEARTBEAT = 15.0
"""Of silence in a stream of events before a comment shows that it still lives: proxies close what is silent for 30."""
ACTIVE = 60.0
"""An agent that was heard of within so many seconds is `active`."""
IDLE = 1800.0
"""Within so many, `idle`; then `stale`."""
FORGOTTEN = DAY
"""After so many, `gone`, even if nothing is known of its process."""

# ── How often, and how long between ──────────────────────────────────────────────────────────────────────────

ATTEMPTS = 3
"""How often a task may be claimed before it fails: once for the work, twice for bad luck."""
MAX_ATTEMPTS = 1000
BACKOFF = 1.0
"""Before the second attempt; doubled for each one after it."""
MAX_BACKOFF = 3600.0
"""What doubling stops at, so that a task that can run again does so within the hour."""
MAX_DELAY = 3650 * DAY
"""The longest duration: ten years, far from where sums of microseconds could overflow."""
MAX_MOMENT = 2**40
"""The latest time, in Unix seconds: it fits into 64 bits as microseconds."""
DRAIN = 30.0
"""How long a worker lets its jobs finish when it is told to stop."""
PATIENCE = 60.0
"""How long a new session may take until it is alive: agents load slowly on a busy machine."""
SETTLE = 0.5
"""How long a new session must live to count as alive: one that cannot start ends sooner."""
STOP_PATIENCE = 10.0
"""How long a session that is asked to stop may take to go by itself."""
GRACE = 2.0
"""Between SIGTERM and SIGKILL for the command of `tb run` when its hold is lost: others have the hold already."""
KEPT = 30 * DAY
"""What is finished is kept this long before it may be pruned."""
LONGEST_WAIT = 60.0
"""For which one request may wait: proxies give up a silent request soon after."""
TOOL_WAIT = 50.0
"""For which a call of a tool may wait: most clients give a call up after a minute."""

# ── How many ─────────────────────────────────────────────────────────────────────────────────────────────────

MAX_COUNT = 100
"""How many tasks, jobs or instants one call may win: more would keep others waiting for the write lock."""
MAX_LIMIT = 1000
"""How many rows one answer may have. Who wants all of them asks again with the last number."""
LISTED = 100
"""How many rows an answer has when nobody says."""
SHOWN = 50
"""How many rows a command shows when nobody says: what a person can look through."""
SENTENCES = 200
"""How long a story (`why`) or a graph is when nobody says: its newest part."""
INSTANTS = 5
"""How many coming instants of a schedule are told when nobody says."""
RUNS = 20
"""How many past runs of a schedule are told when nobody says."""
FIRED = 10
"""How many instants one call of `schedules.fire` wins when nobody says."""
TOOL_COUNT = 20
"""How many tasks a model may claim at once: it can work on few."""
MAX_SLOTS = 10_000
"""How many may share a pool, or run of one group at once."""
MAX_LIST = 1000
"""How many entries a list may have that comes with a call."""
MOST_IN_A_BATCH = 5000
"""How many calls one transaction may have: it keeps all other writers waiting."""
MAX_NUMBER = 2**53
"""The largest whole number that every JSON reader keeps exactly."""

# ── How large ────────────────────────────────────────────────────────────────────────────────────────────────

# In bytes of UTF-8, which are what databases count. PostgreSQL takes 2,704 bytes for one entry of an index, all its
# columns and a few bytes of its own together. The largest entries are those of
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
"""How much of it is kept when nobody says."""
MAX_AMOUNT = 1 << 50
"""The largest bound on what a job may use: a petabyte, more than any machine has."""
MIN_ONCE, MAX_ONCE = 8, 128
"""Characters of a key that makes a call repeatable: long enough not to meet another by chance."""
MAX_TITLE = 200
"""Characters of a name that is made from something longer, such as a command: they always fit into `MAX_NAME`."""
MAX_GLOB = 256
"""Characters, not bytes: comparing two globs takes time in proportion to both."""

-- The board. Times are whole microseconds of board time (see clock.py); 0 means "none".
-- A grant is (holder, epoch, until): free while holder is NULL, free again once until has passed.
-- Each grant raises the epoch by exactly one, and it never falls. So a row with an epoch is kept after its last use.

CREATE TABLE board (
  name  TEXT PRIMARY KEY,                  -- 'clock.boot', 'clock.offset', 'id', 'created'
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- A task's life:
--
--   blocked ──► pending ──► claimed ──► completed
--      │           │  ▲        ├──────► failed       attempts used up, or told not to retry
--      │           │  └────────┤                     failed with attempts left, released, or its lease ran out
--      └───────────┴───────────┴──────► cancelled
--
-- A claim whose lease ran out stays in the table as it is until an agent wins the task or the lapse is written.
CREATE TABLE tasks (
  number       INTEGER PRIMARY KEY,
  id           TEXT NOT NULL UNIQUE,       -- UUID v7
  project      TEXT NOT NULL,
  kind         TEXT NOT NULL,
  name         TEXT NOT NULL,
  key          TEXT,
  queue        TEXT NOT NULL,
  priority     INTEGER NOT NULL,           -- 0 low, 1 normal, 2 high, 3 urgent
  state        TEXT NOT NULL,
  payload      TEXT,
  result       TEXT,
  reason       TEXT,                       -- why it failed or was cancelled
  holder       TEXT,
  epoch        INTEGER NOT NULL DEFAULT 0,
  until        INTEGER NOT NULL DEFAULT 0,
  displaced    TEXT,                       -- whose lapsed grant the current one replaced
  attempts     INTEGER NOT NULL DEFAULT 0, -- counted when claimed
  max_attempts INTEGER NOT NULL,
  backoff      INTEGER NOT NULL,
  ready_at     INTEGER NOT NULL DEFAULT 0, -- not ready before this time; 0 once it is due, so that due tasks have an index
  run_anyway   INTEGER NOT NULL DEFAULT 0, -- run even if a task that it comes after failed
  blockers     INTEGER NOT NULL DEFAULT 0, -- unfinished tasks that it comes after
  tags         TEXT NOT NULL DEFAULT '',   -- ' a b ', with blanks around each tag, so that one tag can be searched for
  about        TEXT,                       -- the task that an announcement is about
  created_by   TEXT,
  created_at   INTEGER NOT NULL,
  updated_at   INTEGER NOT NULL,
  claimed_at   INTEGER NOT NULL DEFAULT 0,
  finished_at  INTEGER NOT NULL DEFAULT 0,
  command      TEXT,                       -- of a job, as JSON: text for the shell, an array of words, or {"call": …}
  callee       TEXT,                       -- the function that a job calls, '' for other commands, NULL if it is no job
  settings     TEXT,                       -- how a job is to run, as JSON; may hold secrets: only the worker gets it
  progress     TEXT,                       -- what the current attempt reported last, as JSON
  limit_group  TEXT,                       -- the group of a limit …
  limit_size   INTEGER NOT NULL DEFAULT 0  -- … and how many of its tasks may be claimed at once
) STRICT;
-- A claim moves a task from the tasks_ready indexes to tasks_claimed and changes no other index, because every page
-- that it changes has to be written before the answer.
CREATE UNIQUE INDEX tasks_key ON tasks (project, key) WHERE key IS NOT NULL;
CREATE INDEX tasks_ready ON tasks (project, priority DESC, number)
  WHERE state = 'pending' AND ready_at = 0 AND limit_group IS NULL;
CREATE INDEX tasks_ready_kind ON tasks (project, kind, priority DESC, number)
  WHERE state = 'pending' AND ready_at = 0 AND limit_group IS NULL;
CREATE INDEX tasks_ready_queue ON tasks (project, queue, priority DESC, number)
  WHERE state = 'pending' AND ready_at = 0 AND limit_group IS NULL;
CREATE INDEX tasks_ready_both ON tasks (project, queue, kind, priority DESC, number)
  WHERE state = 'pending' AND ready_at = 0 AND limit_group IS NULL AND queue <> 'default' AND kind <> 'task';
CREATE INDEX tasks_ready_tagged ON tasks (project, ready_at, priority DESC, number, tags)
  WHERE state = 'pending' AND limit_group IS NULL AND tags <> '';
-- The same condition in other words (no limit), so that a statement about jobs uses this index and no other one.
CREATE INDEX tasks_ready_jobs ON tasks (project, queue, callee, priority DESC, number)
  WHERE state = 'pending' AND ready_at = 0 AND limit_size = 0 AND callee IS NOT NULL;
-- Tasks with a limit have their own indexes, so that no search has to read the backlog of a full group.
CREATE INDEX tasks_ready_limited ON tasks (project, limit_group, queue, priority DESC, number)
  WHERE state = 'pending' AND ready_at = 0 AND limit_group IS NOT NULL;
CREATE INDEX tasks_limited ON tasks (project, limit_group) WHERE state = 'claimed' AND limit_group IS NOT NULL;
CREATE INDEX tasks_delayed ON tasks (project, ready_at) WHERE state = 'pending' AND ready_at > 0;
CREATE INDEX tasks_claimed ON tasks (project, until) WHERE state = 'claimed';
CREATE INDEX tasks_blocked ON tasks (project, number) WHERE state = 'blocked';
CREATE INDEX tasks_open ON tasks (project, number) WHERE finished_at = 0;
CREATE INDEX tasks_ended ON tasks (project, state, number) WHERE finished_at > 0;
CREATE INDEX tasks_finished ON tasks (finished_at) WHERE finished_at > 0;

CREATE TABLE edges (                       -- a dependency: `task` comes after `after`; both are numbers of tasks
  task  INTEGER NOT NULL,
  after INTEGER NOT NULL,
  PRIMARY KEY (task, after)
) STRICT, WITHOUT ROWID;
CREATE INDEX edges_after ON edges (after, task);

CREATE TABLE marks (                       -- the last epoch of a key whose task was pruned
  project TEXT NOT NULL,
  key     TEXT NOT NULL,
  epoch   INTEGER NOT NULL,
  PRIMARY KEY (project, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE queues (                      -- the paused queues
  project   TEXT NOT NULL,
  queue     TEXT NOT NULL,
  paused_at INTEGER NOT NULL,
  paused_by TEXT NOT NULL,
  reason    TEXT,
  PRIMARY KEY (project, queue)
) STRICT, WITHOUT ROWID;

CREATE TABLE outputs (                     -- the output of each attempt of a job; bytes missing between two rows were cut
  task   INTEGER NOT NULL,
  epoch  INTEGER NOT NULL,
  start  INTEGER NOT NULL,                 -- its offset, in bytes of UTF-8 from the beginning of the attempt
  size   INTEGER NOT NULL,
  stream INTEGER NOT NULL,                 -- 1 out, 2 err
  at     INTEGER NOT NULL,
  text   TEXT NOT NULL,
  PRIMARY KEY (task, epoch, start)
) STRICT;

CREATE TABLE holds (                       -- one row for each resource or slot of a pool, kept for ever for its epoch
  project  TEXT NOT NULL,
  resource TEXT NOT NULL,                  -- 'file:src/a.py', 'lock:deploy', 'seat:coordinator', 'pool:ports'
  slot     INTEGER NOT NULL DEFAULT 0,
  holder   TEXT,
  epoch    INTEGER NOT NULL DEFAULT 0,
  until    INTEGER NOT NULL DEFAULT 0,
  displaced TEXT,
  taken_at INTEGER NOT NULL DEFAULT 0,
  note     TEXT,
  hash     TEXT,                           -- of the file's contents that its holder declared last
  glob     INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (project, resource, slot)
) STRICT, WITHOUT ROWID;
CREATE INDEX holds_live ON holds (project, until, glob) WHERE holder IS NOT NULL;

CREATE TABLE pools (
  project  TEXT NOT NULL,
  resource TEXT NOT NULL,
  slots    INTEGER NOT NULL,
  PRIMARY KEY (project, resource)
) STRICT, WITHOUT ROWID;

CREATE TABLE messages (                    -- append-only
  number        INTEGER PRIMARY KEY,
  project       TEXT NOT NULL,
  sender        TEXT NOT NULL,
  recipient     TEXT,                      -- NULL: everybody
  channel       TEXT NOT NULL,
  thread        INTEGER NOT NULL,
  importance    INTEGER NOT NULL,
  ack_requested INTEGER NOT NULL,
  body          TEXT NOT NULL,
  sent_at       INTEGER NOT NULL
) STRICT;
CREATE INDEX messages_project ON messages (project, number);
CREATE INDEX messages_thread ON messages (thread, number);
CREATE VIRTUAL TABLE messages_words USING fts5 (body, content = 'messages', content_rowid = 'number');
CREATE TRIGGER messages_added AFTER INSERT ON messages BEGIN
  INSERT INTO messages_words (rowid, body) VALUES (new.number, new.body);
END;
CREATE TRIGGER messages_removed AFTER DELETE ON messages BEGIN
  INSERT INTO messages_words (messages_words, rowid, body) VALUES ('delete', old.number, old.body);
END;

CREATE TABLE acks (
  message  INTEGER NOT NULL,
  agent    TEXT NOT NULL,                  -- a name, so a restarted agent need not acknowledge again
  acked_at INTEGER NOT NULL,
  PRIMARY KEY (message, agent)
) STRICT, WITHOUT ROWID;

CREATE TABLE cursors (                     -- the last message that an agent (a name) has read
  project TEXT NOT NULL,
  agent   TEXT NOT NULL,
  message INTEGER NOT NULL,
  PRIMARY KEY (project, agent)
) STRICT, WITHOUT ROWID;

CREATE TABLE agents (                      -- one row for each incarnation
  id        TEXT NOT NULL,                 -- name~session
  project   TEXT NOT NULL,
  doing     TEXT,
  program   TEXT,
  parent    TEXT,
  host      TEXT,
  boot      TEXT,
  pid       INTEGER NOT NULL DEFAULT 0,
  started   INTEGER NOT NULL DEFAULT 0,
  joined_at INTEGER NOT NULL,
  seen_at   INTEGER NOT NULL,
  left_at   INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (project, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE events (                      -- what happened, in order; written in the transaction of the change
  number   INTEGER PRIMARY KEY,
  at       INTEGER NOT NULL,
  event    TEXT NOT NULL,                  -- 'task.claimed', 'hold.taken', …
  project  TEXT NOT NULL,
  subject  TEXT,                           -- a task's id or a resource
  name     TEXT,
  kind     TEXT,
  state    TEXT,
  priority INTEGER NOT NULL DEFAULT 1,
  agent    TEXT,
  epoch    INTEGER NOT NULL DEFAULT 0,
  until    INTEGER NOT NULL DEFAULT 0,
  note     TEXT,
  times    INTEGER NOT NULL DEFAULT 1,     -- how many equal refusals this event stands for
  data     TEXT
) STRICT;
CREATE INDEX events_subject ON events (subject, number) WHERE subject IS NOT NULL;

CREATE TABLE answers (                     -- the answers to repeatable writes: a repeated call gets the same answer
  once      TEXT PRIMARY KEY,
  request   TEXT NOT NULL,                 -- the operation and a digest of its parameters
  answer    TEXT NOT NULL,
  at        INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX answers_at ON answers (at);

CREATE TABLE schedules (                   -- scheduled jobs; the row of a removed one stays, for its epoch
  project    TEXT NOT NULL,
  name       TEXT NOT NULL,
  expression TEXT NOT NULL,
  zone       TEXT NOT NULL,
  policy     TEXT NOT NULL,                -- what to do about missed instants: 'skip', 'run-once', 'run-all'
  command    TEXT,
  options    TEXT,                         -- further parameters of jobs.submit; may hold secrets
  holder     TEXT,                         -- who won the last instant; the grant begins and ends in one transaction
  epoch      INTEGER NOT NULL DEFAULT 0,   -- the number of instants that were won
  until      INTEGER NOT NULL DEFAULT 0,
  displaced  TEXT,
  due        INTEGER NOT NULL DEFAULT 0,   -- the next instant to win, in calendar time; 0: none
  last       INTEGER NOT NULL DEFAULT 0,   -- the instant that was won last
  paused_at  INTEGER NOT NULL DEFAULT 0,
  reason     TEXT,                         -- why it is paused
  removed_at INTEGER NOT NULL DEFAULT 0,
  created_by TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (project, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX schedules_due ON schedules (due) WHERE due > 0;
CREATE TABLE waits (                       -- the wait queue for resources; a place lapses unless it is renewed
  project   TEXT NOT NULL,
  number    INTEGER NOT NULL,              -- the lower, the earlier
  agent     TEXT NOT NULL,
  resources TEXT NOT NULL,                 -- JSON; the waiter wants all of them or none
  note      TEXT,
  process   TEXT,                          -- the process that waits; if it has ended, the place does not count
  since_at  INTEGER NOT NULL,
  until     INTEGER NOT NULL,
  cycle     TEXT,                          -- JSON: the deadlock that this waiter has to end by leaving
  PRIMARY KEY (project, number)
) STRICT, WITHOUT ROWID;
-- A session's life: starting ──► alive ──► ended. (host, boot, pid, started) identify the process that is responsible
-- for it: first the process that starts it, then its supervisor. `child` is the command below the supervisor. A
-- coordinator holds a seat, and is fenced while another session has the seat.
CREATE TABLE sessions (
  session       TEXT PRIMARY KEY,          -- the part after '~' of its agent's id
  agent         TEXT NOT NULL,
  project       TEXT NOT NULL,
  role          TEXT NOT NULL,             -- 'coordinator' or 'worker'
  state         TEXT NOT NULL,
  command       TEXT NOT NULL,             -- a JSON array
  cwd           TEXT,
  tmux          TEXT,                      -- the name of its terminal
  facts         TEXT,                      -- JSON: names (never values) of its environment, worktree, socket …
  host          TEXT NOT NULL,
  boot          TEXT NOT NULL,
  pid           INTEGER NOT NULL,
  started       INTEGER NOT NULL,
  child         INTEGER NOT NULL DEFAULT 0,
  child_started INTEGER NOT NULL DEFAULT 0,
  epoch         INTEGER NOT NULL DEFAULT 0, -- of its seat, when it had the seat last
  fenced_by     TEXT,                      -- the session that has its seat
  replaces      TEXT,
  replaced_by   TEXT,                      -- the session that replaced it for good
  ticket        TEXT,                      -- the queued handoff that it was started for
  code          INTEGER,                   -- the exit code of its command
  note          TEXT,
  started_by    TEXT NOT NULL,
  created_at    INTEGER NOT NULL,
  alive_at      INTEGER NOT NULL DEFAULT 0,
  ended_at      INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_open ON sessions (project, role) WHERE ended_at = 0;

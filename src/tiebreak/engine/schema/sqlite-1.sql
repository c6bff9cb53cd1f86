-- The board. Times are whole microseconds of board time (see clock.py); 0 means "none".
-- A grant is (holder, epoch, until): free while holder is NULL, free again once until has passed.
-- The epoch only ever grows, by exactly one with each grant, so rows with an epoch outlive their use.

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
-- A claim whose lease ran out stays in the table as it is until somebody wins the task or writes the lapse down.
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
  ready_at     INTEGER NOT NULL DEFAULT 0, -- not before; 0 once it is due, so that due tasks have an index of their own
  run_anyway   INTEGER NOT NULL DEFAULT 0, -- run even if what it comes after failed
  blockers     INTEGER NOT NULL DEFAULT 0, -- unfinished tasks that it comes after
  tags         TEXT NOT NULL DEFAULT '',   -- ' a b ', padded, so that one tag can be searched for
  about        TEXT,                       -- an announcement's task
  created_by   TEXT,
  created_at   INTEGER NOT NULL,
  updated_at   INTEGER NOT NULL,
  claimed_at   INTEGER NOT NULL DEFAULT 0,
  finished_at  INTEGER NOT NULL DEFAULT 0,
  command      TEXT,                       -- a job's: JSON; a text for the shell, an array of words, {"call": …}
  callee       TEXT,                       -- the function that a job calls, '' for other commands, NULL for no job
  settings     TEXT,                       -- how a job is to run: JSON; only for whoever wins it, it may hold secrets
  progress     TEXT,                       -- how far the current attempt says that it is: JSON
  limit_group  TEXT,                       -- of this group …
  limit_size   INTEGER NOT NULL DEFAULT 0  -- … at most so many are claimed at any time
) STRICT;
-- Indexes follow what changes together: a claim leaves the ready ones and enters tasks_claimed, and touches no other,
-- for each page that it touches is written once more before the answer.
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
-- Without a limit, too, but in other words, so that a statement about jobs follows this index and no other one.
CREATE INDEX tasks_ready_jobs ON tasks (project, queue, callee, priority DESC, number)
  WHERE state = 'pending' AND ready_at = 0 AND limit_size = 0 AND callee IS NOT NULL;
-- Those with a limit have indexes of their own, so that nobody has to pass by the backlog of a group that is full.
CREATE INDEX tasks_ready_limited ON tasks (project, limit_group, queue, priority DESC, number)
  WHERE state = 'pending' AND ready_at = 0 AND limit_group IS NOT NULL;
CREATE INDEX tasks_limited ON tasks (project, limit_group) WHERE state = 'claimed' AND limit_group IS NOT NULL;
CREATE INDEX tasks_delayed ON tasks (project, ready_at) WHERE state = 'pending' AND ready_at > 0;
CREATE INDEX tasks_claimed ON tasks (project, until) WHERE state = 'claimed';
CREATE INDEX tasks_blocked ON tasks (project, number) WHERE state = 'blocked';
CREATE INDEX tasks_open ON tasks (project, number) WHERE finished_at = 0;
CREATE INDEX tasks_ended ON tasks (project, state, number) WHERE finished_at > 0;
CREATE INDEX tasks_finished ON tasks (finished_at) WHERE finished_at > 0;

CREATE TABLE edges (                       -- task comes after another; both are numbers
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

CREATE TABLE queues (                      -- those that are paused
  project   TEXT NOT NULL,
  queue     TEXT NOT NULL,
  paused_at INTEGER NOT NULL,
  paused_by TEXT NOT NULL,
  reason    TEXT,
  PRIMARY KEY (project, queue)
) STRICT, WITHOUT ROWID;

CREATE TABLE outputs (                     -- what jobs wrote, attempt by attempt; what is missing between two was cut
  task   INTEGER NOT NULL,
  epoch  INTEGER NOT NULL,
  start  INTEGER NOT NULL,                 -- where it begins, in bytes of UTF-8 from the beginning of the attempt
  size   INTEGER NOT NULL,
  stream INTEGER NOT NULL,                 -- 1 out, 2 err
  at     INTEGER NOT NULL,
  text   TEXT NOT NULL,
  PRIMARY KEY (task, epoch, start)
) STRICT;

CREATE TABLE holds (                       -- one row for each resource (each slot of a pool), kept for ever for its epoch
  project  TEXT NOT NULL,
  resource TEXT NOT NULL,                  -- 'file:src/a.py', 'lock:deploy', 'seat:coordinator', 'pool:ports'
  slot     INTEGER NOT NULL DEFAULT 0,
  holder   TEXT,
  epoch    INTEGER NOT NULL DEFAULT 0,
  until    INTEGER NOT NULL DEFAULT 0,
  displaced TEXT,
  taken_at INTEGER NOT NULL DEFAULT 0,
  note     TEXT,
  hash     TEXT,                           -- of the file, as its holder last vouched for it
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
  agent    TEXT NOT NULL,                  -- by name: a restarted agent has not to acknowledge again
  acked_at INTEGER NOT NULL,
  PRIMARY KEY (message, agent)
) STRICT, WITHOUT ROWID;

CREATE TABLE cursors (                     -- how far an agent (by name) has read its messages
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

CREATE TABLE events (                      -- what happened, in order; appended with the change itself
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
  times    INTEGER NOT NULL DEFAULT 1,     -- how many refusals were carried by this one
  data     TEXT
) STRICT;
CREATE INDEX events_subject ON events (subject, number) WHERE subject IS NOT NULL;

CREATE TABLE answers (                     -- what a repeatable write answered, to answer the same again
  once      TEXT PRIMARY KEY,
  request   TEXT NOT NULL,                 -- the operation and a digest of its parameters
  answer    TEXT NOT NULL,
  at        INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX answers_at ON answers (at);

CREATE TABLE schedules (                   -- jobs that come round; a removed one leaves its epoch behind
  project    TEXT NOT NULL,
  name       TEXT NOT NULL,
  expression TEXT NOT NULL,
  zone       TEXT NOT NULL,
  policy     TEXT NOT NULL,                -- what becomes of missed instants: 'skip', 'run-once', 'run-all'
  command    TEXT,
  options    TEXT,                         -- what else the job is submitted with; may hold secrets
  holder     TEXT,                         -- who won the last instant: a grant that begins and ends in one transaction
  epoch      INTEGER NOT NULL DEFAULT 0,   -- how many instants were won
  until      INTEGER NOT NULL DEFAULT 0,
  displaced  TEXT,
  due        INTEGER NOT NULL DEFAULT 0,   -- the instant to be won next: a date of the calendar, whatever clock a board has
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
CREATE TABLE waits (                       -- who stands in line for resources; a place lapses unless it is kept
  project   TEXT NOT NULL,
  number    INTEGER NOT NULL,              -- the lower, the earlier
  agent     TEXT NOT NULL,
  resources TEXT NOT NULL,                 -- JSON: all of them, or none
  note      TEXT,
  process   TEXT,                          -- the process that waits: its death ends the wait
  since_at  INTEGER NOT NULL,
  until     INTEGER NOT NULL,
  cycle     TEXT,                          -- JSON: the deadlock that this one is to end by leaving
  PRIMARY KEY (project, number)
) STRICT, WITHOUT ROWID;
-- A session's life: starting ──► alive ──► ended. While it starts, whoever started it answers for it; from then on its
-- supervisor does (host, boot, pid, started), together with the command below it. A coordinator holds a seat, and is
-- fenced while the seat is somebody else's.
CREATE TABLE sessions (
  session       TEXT PRIMARY KEY,          -- what comes after '~' in its agent's id
  agent         TEXT NOT NULL,
  project       TEXT NOT NULL,
  role          TEXT NOT NULL,             -- 'coordinator' or 'worker'
  state         TEXT NOT NULL,
  command       TEXT NOT NULL,             -- a JSON array, as it was asked for
  cwd           TEXT,
  tmux          TEXT,                      -- the name of its terminal
  facts         TEXT,                      -- JSON: names (never values) of its environment, worktree, socket …
  host          TEXT NOT NULL,
  boot          TEXT NOT NULL,
  pid           INTEGER NOT NULL,
  started       INTEGER NOT NULL,
  child         INTEGER NOT NULL DEFAULT 0,
  child_started INTEGER NOT NULL DEFAULT 0,
  epoch         INTEGER NOT NULL DEFAULT 0, -- of its seat, when it last had it
  fenced_by     TEXT,                      -- who has its seat
  replaces      TEXT,
  replaced_by   TEXT,                      -- who took its place for good
  ticket        TEXT,                      -- the queued handoff that it answers
  code          INTEGER,                   -- how its command ended
  note          TEXT,
  started_by    TEXT NOT NULL,
  created_at    INTEGER NOT NULL,
  alive_at      INTEGER NOT NULL DEFAULT 0,
  ended_at      INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_open ON sessions (project, role) WHERE ended_at = 0;

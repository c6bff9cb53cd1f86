-- Version 3: the same changes as in sqlite-3.sql, where they are explained.

-- First of all, processes of version 2 are locked out; postgres-2.sql says how. Step 4 has to do the same.
CREATE TABLE chores (
  project text COLLATE "C" NOT NULL,
  chore   text COLLATE "C" NOT NULL,
  subject text COLLATE "C" NOT NULL,
  passed  bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (project, chore, subject)
);

CREATE TABLE stirred (
  project     text COLLATE "C" NOT NULL,
  limit_group text COLLATE "C" NOT NULL,
  task        bigint NOT NULL,
  rank        bigint NOT NULL,
  PRIMARY KEY (project, limit_group, task)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 1);
CREATE INDEX stirred_rank ON stirred (project, rank DESC, task);

CREATE OR REPLACE FUNCTION refuse_older_tiebreak() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'this board was upgraded to schema 3; upgrade tiebreak on this machine';
END $$;

DO $$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY[
    'acks', 'agents', 'answers', 'board', 'chores', 'cursors', 'edges', 'events', 'holds', 'marks',
    'messages', 'outputs', 'pools', 'queues', 'schedules', 'sessions', 'stirred', 'tasks', 'waits'
  ] LOOP
    EXECUTE format('DROP TRIGGER IF EXISTS schema_2 ON %I', name);
    EXECUTE format(
      'CREATE TRIGGER schema_3 BEFORE INSERT OR UPDATE OR DELETE ON %I FOR EACH STATEMENT '
      'WHEN (current_setting(''tiebreak.schema'', true) IS DISTINCT FROM ''3'') '
      'EXECUTE FUNCTION refuse_older_tiebreak()', name);
  END LOOP;
END $$;

ALTER TABLE tasks ADD COLUMN aside bigint NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN look_at bigint NOT NULL DEFAULT 0;
UPDATE tasks SET look_at = until WHERE state = 'claimed';
UPDATE tasks SET aside = 1 WHERE finished_at = 0 AND limit_group IS NOT NULL AND state <> 'claimed';
INSERT INTO stirred (project, limit_group, task, rank)
  SELECT project, limit_group, min(number), 9 FROM tasks
  WHERE finished_at = 0 AND limit_group IS NOT NULL GROUP BY project, limit_group;

DROP INDEX tasks_ready;
DROP INDEX tasks_ready_kind;
DROP INDEX tasks_ready_queue;
DROP INDEX tasks_ready_both;
DROP INDEX tasks_ready_tagged;
DROP INDEX tasks_ready_jobs;
DROP INDEX tasks_ready_limited;
DROP INDEX tasks_claimed;
CREATE INDEX tasks_ready ON tasks (project, priority DESC, number)
  WHERE state = 'pending' AND ready_at = 0 AND aside = 0;
CREATE INDEX tasks_ready_kind ON tasks (project, kind, priority DESC, number)
  WHERE state = 'pending' AND ready_at = 0 AND aside = 0;
CREATE INDEX tasks_ready_queue ON tasks (project, queue, priority DESC, number)
  WHERE state = 'pending' AND ready_at = 0 AND aside = 0;
CREATE INDEX tasks_ready_both ON tasks (project, queue, kind, priority DESC, number)
  WHERE state = 'pending' AND ready_at = 0 AND aside = 0 AND queue <> 'default' AND kind <> 'task';
CREATE INDEX tasks_ready_tagged ON tasks (project, ready_at, priority DESC, number)
  WHERE state = 'pending' AND aside = 0 AND tags <> '';
-- The same condition in other words, so that a statement about jobs uses this index and no other one.
CREATE INDEX tasks_ready_jobs ON tasks (project, queue, callee, priority DESC, number)
  WHERE state = 'pending' AND ready_at = 0 AND aside < 1 AND callee IS NOT NULL;
CREATE INDEX tasks_ready_limited ON tasks (project, limit_group, queue, callee, limit_size, priority DESC, number)
  WHERE state = 'pending' AND ready_at = 0 AND limit_group IS NOT NULL;
CREATE INDEX tasks_aside ON tasks (project, queue, aside, priority DESC, number)
  WHERE state = 'pending' AND ready_at = 0 AND aside > 0;
CREATE INDEX tasks_claimed ON tasks (project, look_at) WHERE state = 'claimed';  -- not `until`, or no renewal would be HOT
CREATE INDEX events_granted ON events (project, subject, epoch, number)
  WHERE event IN ('task.claimed', 'hold.taken', 'hold.transferred');

CREATE FUNCTION stir_group() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO stirred AS known (project, limit_group, task, rank)
    VALUES (NEW.project, NEW.limit_group, NEW.number,
            CASE WHEN TG_OP = 'UPDATE' AND (OLD.state = 'claimed' OR NEW.state <> 'pending') THEN 9 ELSE NEW.priority END)
    ON CONFLICT (project, limit_group, task) DO UPDATE SET rank = greatest(known.rank, excluded.rank);
  RETURN NULL;
END $$;
CREATE TRIGGER tasks_insert_stirs AFTER INSERT ON tasks FOR EACH ROW
  WHEN (NEW.limit_group IS NOT NULL AND NEW.state = 'pending' AND NEW.ready_at = 0) EXECUTE FUNCTION stir_group();
CREATE TRIGGER tasks_update_stirs AFTER UPDATE OF state, ready_at ON tasks FOR EACH ROW
  WHEN (NEW.limit_group IS NOT NULL AND NEW.state <> 'claimed') EXECUTE FUNCTION stir_group();

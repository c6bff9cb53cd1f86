-- Version 5: the same changes as in sqlite-5.sql, where they are explained.

-- First of all, processes of version 4 are locked out; postgres-2.sql says how. Step 6 has to do the same.
CREATE OR REPLACE FUNCTION refuse_older_tiebreak() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'this board was upgraded to schema 5; upgrade tiebreak on this machine';
END $$;

DO $$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY[
    'acks', 'agents', 'answers', 'board', 'chores', 'cursors', 'edges', 'events', 'holds', 'marks', 'messages',
    'outputs', 'pools', 'projects', 'queues', 'schedules', 'sessions', 'stirred', 'tasks', 'waits'
  ] LOOP
    EXECUTE format('DROP TRIGGER IF EXISTS schema_4 ON %I', name);
    EXECUTE format(
      'CREATE TRIGGER schema_5 BEFORE INSERT OR UPDATE OR DELETE ON %I FOR EACH STATEMENT '
      'WHEN (current_setting(''tiebreak.schema'', true) IS DISTINCT FROM ''5'') '
      'EXECUTE FUNCTION refuse_older_tiebreak()', name);
  END LOOP;
END $$;

ALTER TABLE tasks ADD COLUMN body text;
ALTER TABLE tasks ADD COLUMN parent bigint;
ALTER TABLE messages ADD COLUMN task bigint;
CREATE INDEX tasks_children ON tasks (parent, number) WHERE parent IS NOT NULL;
CREATE INDEX tasks_questions ON tasks (project, number) WHERE max_attempts = 0 AND finished_at = 0;
CREATE INDEX messages_task ON messages (task, number) WHERE task IS NOT NULL;

-- Version 2 locks out processes of version 1 that still have the board open; sqlite-2.sql says why.
--
-- Each transaction of version 2 begins with SET LOCAL tiebreak.schema = '2'. A trigger on every table refuses all writes
-- of a transaction without that setting. The text of the error is what a process of version 1 shows to its user.
--
-- The triggers fire once for each statement, not for each row, and the condition is part of the trigger: the function is
-- called only to refuse. Creating a trigger locks the table, so this step waits for transactions of version 1 that have
-- written to it. A transaction that has only read so far is refused when it writes.
--
-- What step 3 has to do before it changes any row: replace each trigger by one that asks for '3' and has the name
-- schema_3 (`POSTGRES_PASS` in __init__.py follows VERSION), also for each table that it adds, and replace the function by
-- one whose error names schema 3. A test compares the triggers with the tables.

CREATE FUNCTION refuse_older_tiebreak() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'this board was upgraded to schema 2; upgrade tiebreak on this machine';
END $$;

DO $$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY[
    'acks', 'agents', 'answers', 'board', 'cursors', 'edges', 'events', 'holds', 'marks',
    'messages', 'outputs', 'pools', 'queues', 'schedules', 'sessions', 'tasks', 'waits'
  ] LOOP
    EXECUTE format(
      'CREATE TRIGGER schema_2 BEFORE INSERT OR UPDATE OR DELETE ON %I FOR EACH STATEMENT '
      'WHEN (current_setting(''tiebreak.schema'', true) IS DISTINCT FROM ''2'') '
      'EXECUTE FUNCTION refuse_older_tiebreak()', name);
  END LOOP;
END $$;

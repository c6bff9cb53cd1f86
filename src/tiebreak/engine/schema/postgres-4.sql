-- Version 4: the same changes as in sqlite-4.sql, where they are explained.

-- First of all, processes of version 3 are locked out; postgres-2.sql says how. Step 5 has to do the same.
CREATE TABLE projects (
  name    text COLLATE "C" PRIMARY KEY,
  project text COLLATE "C" NOT NULL,
  rule    text COLLATE "C" NOT NULL,
  root    text COLLATE "C"
);
CREATE INDEX projects_of ON projects (project);

-- Whoever may use the tasks may use the names of projects: every transaction reads them.
DO $$
DECLARE
  known record;
BEGIN
  FOR known IN SELECT DISTINCT CASE WHEN grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END AS who,
      privilege_type AS what
    FROM pg_class, aclexplode(relacl) WHERE oid = 'tasks'::regclass AND grantee <> relowner
  LOOP
    EXECUTE format('GRANT %s ON projects TO %s', known.what, known.who);
  END LOOP;
END $$;

CREATE OR REPLACE FUNCTION refuse_older_tiebreak() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'this board was upgraded to schema 4; upgrade tiebreak on this machine';
END $$;

DO $$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY[
    'acks', 'agents', 'answers', 'board', 'chores', 'cursors', 'edges', 'events', 'holds', 'marks', 'messages',
    'outputs', 'pools', 'projects', 'queues', 'schedules', 'sessions', 'stirred', 'tasks', 'waits'
  ] LOOP
    EXECUTE format('DROP TRIGGER IF EXISTS schema_3 ON %I', name);
    EXECUTE format(
      'CREATE TRIGGER schema_4 BEFORE INSERT OR UPDATE OR DELETE ON %I FOR EACH STATEMENT '
      'WHEN (current_setting(''tiebreak.schema'', true) IS DISTINCT FROM ''4'') '
      'EXECUTE FUNCTION refuse_older_tiebreak()', name);
  END LOOP;
END $$;

ALTER TABLE agents ADD COLUMN bound bigint NOT NULL DEFAULT 0;
INSERT INTO projects (name, project, rule)
  SELECT project, project, 'old' FROM (
  SELECT project FROM tasks UNION
  SELECT project FROM holds UNION
  SELECT project FROM pools UNION
  SELECT project FROM marks UNION
  SELECT project FROM queues UNION
  SELECT project FROM messages UNION
  SELECT project FROM cursors UNION
  SELECT project FROM agents UNION
  SELECT project FROM sessions UNION
  SELECT project FROM schedules UNION
  SELECT project FROM waits UNION
  SELECT project FROM chores) AS used;

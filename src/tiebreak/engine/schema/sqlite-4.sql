-- Version 4: a project has names that everybody who works on the same repository comes to.
--
-- Until now a project was named after the path of a clone. So two clones of one repository were two projects, and two
-- repositories at the same path were one. Processes that still name projects so must not write any more.
--
-- `projects` has the names that were settled. `project` is the name under which the rows of the project are kept. A name
-- that is not in this table stands for itself. The names that the board has used so far are rows of rule 'old', until a
-- clone that was known by such a name comes back and takes its rows over (see operations/project_names.py).
--
-- `bound`: whether the process of an agent is the agent itself, so that everything which the agent holds can be given
-- back as soon as that process is known to have ended. A shell that ran one command is no such process.

-- First of all, processes of version 3 are locked out; sqlite-2.sql says how. Step 5 has to do the same.
DROP TRIGGER acks_insert_pass;
DROP TRIGGER acks_update_pass;
DROP TRIGGER acks_delete_pass;
DROP TRIGGER agents_insert_pass;
DROP TRIGGER agents_update_pass;
DROP TRIGGER agents_delete_pass;
DROP TRIGGER answers_insert_pass;
DROP TRIGGER answers_update_pass;
DROP TRIGGER answers_delete_pass;
DROP TRIGGER board_insert_pass;
DROP TRIGGER board_update_pass;
DROP TRIGGER board_delete_pass;
DROP TRIGGER chores_insert_pass;
DROP TRIGGER chores_update_pass;
DROP TRIGGER chores_delete_pass;
DROP TRIGGER cursors_insert_pass;
DROP TRIGGER cursors_update_pass;
DROP TRIGGER cursors_delete_pass;
DROP TRIGGER edges_insert_pass;
DROP TRIGGER edges_update_pass;
DROP TRIGGER edges_delete_pass;
DROP TRIGGER events_insert_pass;
DROP TRIGGER events_update_pass;
DROP TRIGGER events_delete_pass;
DROP TRIGGER holds_insert_pass;
DROP TRIGGER holds_update_pass;
DROP TRIGGER holds_delete_pass;
DROP TRIGGER marks_insert_pass;
DROP TRIGGER marks_update_pass;
DROP TRIGGER marks_delete_pass;
DROP TRIGGER messages_insert_pass;
DROP TRIGGER messages_update_pass;
DROP TRIGGER messages_delete_pass;
DROP TRIGGER outputs_insert_pass;
DROP TRIGGER outputs_update_pass;
DROP TRIGGER outputs_delete_pass;
DROP TRIGGER pools_insert_pass;
DROP TRIGGER pools_update_pass;
DROP TRIGGER pools_delete_pass;
DROP TRIGGER queues_insert_pass;
DROP TRIGGER queues_update_pass;
DROP TRIGGER queues_delete_pass;
DROP TRIGGER schedules_insert_pass;
DROP TRIGGER schedules_update_pass;
DROP TRIGGER schedules_delete_pass;
DROP TRIGGER sessions_insert_pass;
DROP TRIGGER sessions_update_pass;
DROP TRIGGER sessions_delete_pass;
DROP TRIGGER stirred_insert_pass;
DROP TRIGGER stirred_update_pass;
DROP TRIGGER stirred_delete_pass;
DROP TRIGGER tasks_insert_pass;
DROP TRIGGER tasks_update_pass;
DROP TRIGGER tasks_delete_pass;
DROP TRIGGER waits_insert_pass;
DROP TRIGGER waits_update_pass;
DROP TRIGGER waits_delete_pass;

CREATE TABLE projects (
  name    TEXT PRIMARY KEY,
  project TEXT NOT NULL,                     -- the name under which the rows are kept
  rule    TEXT NOT NULL,                     -- where the name comes from: 'origin', 'commit', 'path' (see
                                             -- project_identity.py), 'given' by a person, 'old': by version 3, not taken
                                             -- over yet; 'taken': taken over
  root    TEXT                               -- the first commit of the repository, where it is known
) STRICT, WITHOUT ROWID;
CREATE INDEX projects_of ON projects (project);

CREATE TRIGGER acks_insert_pass AFTER INSERT ON acks WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER acks_update_pass AFTER UPDATE ON acks WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER acks_delete_pass AFTER DELETE ON acks WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER agents_insert_pass AFTER INSERT ON agents WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER agents_update_pass AFTER UPDATE ON agents WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER agents_delete_pass AFTER DELETE ON agents WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER answers_insert_pass AFTER INSERT ON answers WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER answers_update_pass AFTER UPDATE ON answers WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER answers_delete_pass AFTER DELETE ON answers WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER board_insert_pass AFTER INSERT ON board WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER board_update_pass AFTER UPDATE ON board WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER board_delete_pass AFTER DELETE ON board WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER chores_insert_pass AFTER INSERT ON chores WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER chores_update_pass AFTER UPDATE ON chores WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER chores_delete_pass AFTER DELETE ON chores WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER cursors_insert_pass AFTER INSERT ON cursors WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER cursors_update_pass AFTER UPDATE ON cursors WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER cursors_delete_pass AFTER DELETE ON cursors WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER edges_insert_pass AFTER INSERT ON edges WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER edges_update_pass AFTER UPDATE ON edges WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER edges_delete_pass AFTER DELETE ON edges WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER events_insert_pass AFTER INSERT ON events WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER events_update_pass AFTER UPDATE ON events WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER events_delete_pass AFTER DELETE ON events WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER holds_insert_pass AFTER INSERT ON holds WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER holds_update_pass AFTER UPDATE ON holds WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER holds_delete_pass AFTER DELETE ON holds WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER marks_insert_pass AFTER INSERT ON marks WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER marks_update_pass AFTER UPDATE ON marks WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER marks_delete_pass AFTER DELETE ON marks WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER messages_insert_pass AFTER INSERT ON messages WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER messages_update_pass AFTER UPDATE ON messages WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER messages_delete_pass AFTER DELETE ON messages WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER outputs_insert_pass AFTER INSERT ON outputs WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER outputs_update_pass AFTER UPDATE ON outputs WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER outputs_delete_pass AFTER DELETE ON outputs WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER pools_insert_pass AFTER INSERT ON pools WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER pools_update_pass AFTER UPDATE ON pools WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER pools_delete_pass AFTER DELETE ON pools WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER projects_insert_pass AFTER INSERT ON projects WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER projects_update_pass AFTER UPDATE ON projects WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER projects_delete_pass AFTER DELETE ON projects WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER queues_insert_pass AFTER INSERT ON queues WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER queues_update_pass AFTER UPDATE ON queues WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER queues_delete_pass AFTER DELETE ON queues WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER schedules_insert_pass AFTER INSERT ON schedules WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER schedules_update_pass AFTER UPDATE ON schedules WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER schedules_delete_pass AFTER DELETE ON schedules WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER sessions_insert_pass AFTER INSERT ON sessions WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER sessions_update_pass AFTER UPDATE ON sessions WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER sessions_delete_pass AFTER DELETE ON sessions WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER stirred_insert_pass AFTER INSERT ON stirred WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER stirred_update_pass AFTER UPDATE ON stirred WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER stirred_delete_pass AFTER DELETE ON stirred WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER tasks_insert_pass AFTER INSERT ON tasks WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER tasks_update_pass AFTER UPDATE ON tasks WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER tasks_delete_pass AFTER DELETE ON tasks WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER waits_insert_pass AFTER INSERT ON waits WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER waits_update_pass AFTER UPDATE ON waits WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;
CREATE TRIGGER waits_delete_pass AFTER DELETE ON waits WHEN 0
  BEGIN SELECT this_board_has_schema_4_please_upgrade_tiebreak(); END;

ALTER TABLE agents ADD COLUMN bound INTEGER NOT NULL DEFAULT 0;
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

-- Version 5: tasks as people use them, and questions to people.
--
-- `body` is the description of a task, and `parent` the number of the task that it is a part of. A parent neither waits
-- for its children nor holds them back: that is what `edges` are for.
--
-- `task` is the number of the task that a message is a comment on. A comment with the recipient '' is for nobody in
-- particular: everybody reads it at the task, and nobody in an inbox.
--
-- A question is a task that waits for the answer of a person: nobody works on it, so it has no attempts (`max_attempts`
-- is 0) and cannot be claimed. It has 3 in the column `aside`, so that `next` does not find it; sqlite-3.sql has the
-- other values. Processes of version 4 would not know that.

-- First of all, processes of version 4 are locked out; sqlite-2.sql says how. Step 6 has to do the same.
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
DROP TRIGGER projects_insert_pass;
DROP TRIGGER projects_update_pass;
DROP TRIGGER projects_delete_pass;
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

CREATE TRIGGER acks_insert_pass AFTER INSERT ON acks WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER acks_update_pass AFTER UPDATE ON acks WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER acks_delete_pass AFTER DELETE ON acks WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER agents_insert_pass AFTER INSERT ON agents WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER agents_update_pass AFTER UPDATE ON agents WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER agents_delete_pass AFTER DELETE ON agents WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER answers_insert_pass AFTER INSERT ON answers WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER answers_update_pass AFTER UPDATE ON answers WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER answers_delete_pass AFTER DELETE ON answers WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER board_insert_pass AFTER INSERT ON board WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER board_update_pass AFTER UPDATE ON board WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER board_delete_pass AFTER DELETE ON board WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER chores_insert_pass AFTER INSERT ON chores WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER chores_update_pass AFTER UPDATE ON chores WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER chores_delete_pass AFTER DELETE ON chores WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER cursors_insert_pass AFTER INSERT ON cursors WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER cursors_update_pass AFTER UPDATE ON cursors WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER cursors_delete_pass AFTER DELETE ON cursors WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER edges_insert_pass AFTER INSERT ON edges WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER edges_update_pass AFTER UPDATE ON edges WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER edges_delete_pass AFTER DELETE ON edges WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER events_insert_pass AFTER INSERT ON events WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER events_update_pass AFTER UPDATE ON events WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER events_delete_pass AFTER DELETE ON events WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER holds_insert_pass AFTER INSERT ON holds WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER holds_update_pass AFTER UPDATE ON holds WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER holds_delete_pass AFTER DELETE ON holds WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER marks_insert_pass AFTER INSERT ON marks WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER marks_update_pass AFTER UPDATE ON marks WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER marks_delete_pass AFTER DELETE ON marks WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER messages_insert_pass AFTER INSERT ON messages WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER messages_update_pass AFTER UPDATE ON messages WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER messages_delete_pass AFTER DELETE ON messages WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER outputs_insert_pass AFTER INSERT ON outputs WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER outputs_update_pass AFTER UPDATE ON outputs WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER outputs_delete_pass AFTER DELETE ON outputs WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER pools_insert_pass AFTER INSERT ON pools WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER pools_update_pass AFTER UPDATE ON pools WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER pools_delete_pass AFTER DELETE ON pools WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER projects_insert_pass AFTER INSERT ON projects WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER projects_update_pass AFTER UPDATE ON projects WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER projects_delete_pass AFTER DELETE ON projects WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER queues_insert_pass AFTER INSERT ON queues WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER queues_update_pass AFTER UPDATE ON queues WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER queues_delete_pass AFTER DELETE ON queues WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER schedules_insert_pass AFTER INSERT ON schedules WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER schedules_update_pass AFTER UPDATE ON schedules WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER schedules_delete_pass AFTER DELETE ON schedules WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER sessions_insert_pass AFTER INSERT ON sessions WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER sessions_update_pass AFTER UPDATE ON sessions WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER sessions_delete_pass AFTER DELETE ON sessions WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER stirred_insert_pass AFTER INSERT ON stirred WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER stirred_update_pass AFTER UPDATE ON stirred WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER stirred_delete_pass AFTER DELETE ON stirred WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER tasks_insert_pass AFTER INSERT ON tasks WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER tasks_update_pass AFTER UPDATE ON tasks WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER tasks_delete_pass AFTER DELETE ON tasks WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER waits_insert_pass AFTER INSERT ON waits WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER waits_update_pass AFTER UPDATE ON waits WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;
CREATE TRIGGER waits_delete_pass AFTER DELETE ON waits WHEN 0
  BEGIN SELECT this_board_has_schema_5_please_upgrade_tiebreak(); END;

ALTER TABLE tasks ADD COLUMN body TEXT;
ALTER TABLE tasks ADD COLUMN parent INTEGER;
ALTER TABLE messages ADD COLUMN task INTEGER;
CREATE INDEX tasks_children ON tasks (parent, number) WHERE parent IS NOT NULL;
CREATE INDEX tasks_questions ON tasks (project, number) WHERE max_attempts = 0 AND finished_at = 0;
CREATE INDEX messages_task ON messages (task, number) WHERE task IS NOT NULL;

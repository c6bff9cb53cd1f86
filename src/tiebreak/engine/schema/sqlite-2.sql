-- Version 2 has the same tables as version 1, but another rule: a lapse counts only when it is written. If processes of
-- both versions wrote to one board, two agents could get the same thing. So processes of version 1 that still have the
-- board open must not write any more.
--
-- A process reads the version only when it opens a board, but it cannot avoid the triggers of the tables that it writes.
-- Each trigger here calls a function that only connections of version 2 register. SQLite looks up the functions of all
-- triggers when it prepares a statement that writes to the table. So in a process of version 1 every such statement
-- fails, before it does anything, with
--
--   no such function: this_board_has_schema_2_please_upgrade_tiebreak
--
-- This is so even if the process prepared its statements before the upgrade: SQLite notices that the schema has changed
-- and prepares them again. Reading needs no function, so programs that only read continue as before.
--
-- `WHEN 0`: the function is looked up but never called, so the triggers cost next to nothing.
--
-- What step 3 has to do before it changes any row: drop these triggers and create the same ones with the name of its own
-- function (`SQLITE_PASS` in __init__.py follows VERSION), also for each table that it adds. A test compares the triggers
-- with the tables.

CREATE TRIGGER acks_insert_pass AFTER INSERT ON acks WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER acks_update_pass AFTER UPDATE ON acks WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER acks_delete_pass AFTER DELETE ON acks WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER agents_insert_pass AFTER INSERT ON agents WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER agents_update_pass AFTER UPDATE ON agents WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER agents_delete_pass AFTER DELETE ON agents WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER answers_insert_pass AFTER INSERT ON answers WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER answers_update_pass AFTER UPDATE ON answers WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER answers_delete_pass AFTER DELETE ON answers WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER board_insert_pass AFTER INSERT ON board WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER board_update_pass AFTER UPDATE ON board WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER board_delete_pass AFTER DELETE ON board WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER cursors_insert_pass AFTER INSERT ON cursors WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER cursors_update_pass AFTER UPDATE ON cursors WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER cursors_delete_pass AFTER DELETE ON cursors WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER edges_insert_pass AFTER INSERT ON edges WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER edges_update_pass AFTER UPDATE ON edges WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER edges_delete_pass AFTER DELETE ON edges WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER events_insert_pass AFTER INSERT ON events WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER events_update_pass AFTER UPDATE ON events WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER events_delete_pass AFTER DELETE ON events WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER holds_insert_pass AFTER INSERT ON holds WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER holds_update_pass AFTER UPDATE ON holds WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER holds_delete_pass AFTER DELETE ON holds WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER marks_insert_pass AFTER INSERT ON marks WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER marks_update_pass AFTER UPDATE ON marks WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER marks_delete_pass AFTER DELETE ON marks WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER messages_insert_pass AFTER INSERT ON messages WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER messages_update_pass AFTER UPDATE ON messages WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER messages_delete_pass AFTER DELETE ON messages WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER outputs_insert_pass AFTER INSERT ON outputs WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER outputs_update_pass AFTER UPDATE ON outputs WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER outputs_delete_pass AFTER DELETE ON outputs WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER pools_insert_pass AFTER INSERT ON pools WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER pools_update_pass AFTER UPDATE ON pools WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER pools_delete_pass AFTER DELETE ON pools WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER queues_insert_pass AFTER INSERT ON queues WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER queues_update_pass AFTER UPDATE ON queues WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER queues_delete_pass AFTER DELETE ON queues WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER schedules_insert_pass AFTER INSERT ON schedules WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER schedules_update_pass AFTER UPDATE ON schedules WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER schedules_delete_pass AFTER DELETE ON schedules WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER sessions_insert_pass AFTER INSERT ON sessions WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER sessions_update_pass AFTER UPDATE ON sessions WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER sessions_delete_pass AFTER DELETE ON sessions WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER tasks_insert_pass AFTER INSERT ON tasks WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER tasks_update_pass AFTER UPDATE ON tasks WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER tasks_delete_pass AFTER DELETE ON tasks WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER waits_insert_pass AFTER INSERT ON waits WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER waits_update_pass AFTER UPDATE ON waits WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;
CREATE TRIGGER waits_delete_pass AFTER DELETE ON waits WHEN 0
  BEGIN SELECT this_board_has_schema_2_please_upgrade_tiebreak(); END;

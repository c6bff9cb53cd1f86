-- Version 3: `next` costs the same however many tasks wait, and a task with very many dependents ends in steps.
--
-- `aside`: a ready task that cannot be won now is hidden from the indexes that `next` reads. 1: its group is full.
-- 2: its queue is paused. It is a hint for finding tasks and decides nothing: a call that wins a task counts its
-- group and checks whether its queue is paused. But no task may stay hidden once it can be won. So every change that may
-- give a group room, or adds a task to it, adds a row to `stirred`, and `next` reconsiders those groups.
--
-- `look_at`: when to check whether a claim has lapsed. A claim sets it to `until`, and a renewal does not change it, so
-- that a renewal changes no index. A check that finds the claim renewed sets it to `until` again.
--
-- `chores`: deferred work, which an operation leaves to later steps because it would take too long at once.

-- First of all, processes of version 2 are locked out; sqlite-2.sql says how. Step 4 has to do the same.
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
DROP TRIGGER tasks_insert_pass;
DROP TRIGGER tasks_update_pass;
DROP TRIGGER tasks_delete_pass;
DROP TRIGGER waits_insert_pass;
DROP TRIGGER waits_update_pass;
DROP TRIGGER waits_delete_pass;

CREATE TABLE chores (
  project TEXT NOT NULL,
  chore   TEXT NOT NULL,                     -- 'dependents': update the tasks that come after an ended task;
                                             -- 'resume': show the hidden tasks of a queue
  subject TEXT NOT NULL,                     -- the number of the task, or the name of the queue
  passed  INTEGER NOT NULL DEFAULT 0,        -- the number of the last task that was handled
  PRIMARY KEY (project, chore, subject)
) STRICT, WITHOUT ROWID;

CREATE TABLE stirred (                       -- groups with a limit that `next` has to reconsider
  project     TEXT NOT NULL,
  limit_group TEXT NOT NULL,
  task        INTEGER NOT NULL,              -- the task that has changed
  rank        INTEGER NOT NULL,              -- the priority of a task that became ready; 9: there may be room
  PRIMARY KEY (project, limit_group, task)
) STRICT, WITHOUT ROWID;
CREATE INDEX stirred_rank ON stirred (project, rank DESC, task);

CREATE TRIGGER acks_insert_pass AFTER INSERT ON acks WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER acks_update_pass AFTER UPDATE ON acks WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER acks_delete_pass AFTER DELETE ON acks WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER agents_insert_pass AFTER INSERT ON agents WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER agents_update_pass AFTER UPDATE ON agents WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER agents_delete_pass AFTER DELETE ON agents WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER answers_insert_pass AFTER INSERT ON answers WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER answers_update_pass AFTER UPDATE ON answers WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER answers_delete_pass AFTER DELETE ON answers WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER board_insert_pass AFTER INSERT ON board WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER board_update_pass AFTER UPDATE ON board WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER board_delete_pass AFTER DELETE ON board WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER chores_insert_pass AFTER INSERT ON chores WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER chores_update_pass AFTER UPDATE ON chores WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER chores_delete_pass AFTER DELETE ON chores WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER cursors_insert_pass AFTER INSERT ON cursors WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER cursors_update_pass AFTER UPDATE ON cursors WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER cursors_delete_pass AFTER DELETE ON cursors WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER edges_insert_pass AFTER INSERT ON edges WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER edges_update_pass AFTER UPDATE ON edges WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER edges_delete_pass AFTER DELETE ON edges WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER events_insert_pass AFTER INSERT ON events WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER events_update_pass AFTER UPDATE ON events WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER events_delete_pass AFTER DELETE ON events WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER holds_insert_pass AFTER INSERT ON holds WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER holds_update_pass AFTER UPDATE ON holds WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER holds_delete_pass AFTER DELETE ON holds WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER marks_insert_pass AFTER INSERT ON marks WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER marks_update_pass AFTER UPDATE ON marks WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER marks_delete_pass AFTER DELETE ON marks WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER messages_insert_pass AFTER INSERT ON messages WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER messages_update_pass AFTER UPDATE ON messages WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER messages_delete_pass AFTER DELETE ON messages WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER outputs_insert_pass AFTER INSERT ON outputs WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER outputs_update_pass AFTER UPDATE ON outputs WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER outputs_delete_pass AFTER DELETE ON outputs WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER pools_insert_pass AFTER INSERT ON pools WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER pools_update_pass AFTER UPDATE ON pools WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER pools_delete_pass AFTER DELETE ON pools WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER queues_insert_pass AFTER INSERT ON queues WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER queues_update_pass AFTER UPDATE ON queues WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER queues_delete_pass AFTER DELETE ON queues WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER schedules_insert_pass AFTER INSERT ON schedules WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER schedules_update_pass AFTER UPDATE ON schedules WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER schedules_delete_pass AFTER DELETE ON schedules WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER sessions_insert_pass AFTER INSERT ON sessions WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER sessions_update_pass AFTER UPDATE ON sessions WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER sessions_delete_pass AFTER DELETE ON sessions WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER stirred_insert_pass AFTER INSERT ON stirred WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER stirred_update_pass AFTER UPDATE ON stirred WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER stirred_delete_pass AFTER DELETE ON stirred WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER tasks_insert_pass AFTER INSERT ON tasks WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER tasks_update_pass AFTER UPDATE ON tasks WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER tasks_delete_pass AFTER DELETE ON tasks WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER waits_insert_pass AFTER INSERT ON waits WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER waits_update_pass AFTER UPDATE ON waits WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;
CREATE TRIGGER waits_delete_pass AFTER DELETE ON waits WHEN 0
  BEGIN SELECT this_board_has_schema_3_please_upgrade_tiebreak(); END;

ALTER TABLE tasks ADD COLUMN aside INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN look_at INTEGER NOT NULL DEFAULT 0;
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
CREATE INDEX tasks_ready_tagged ON tasks (project, ready_at, priority DESC, number, tags)
  WHERE state = 'pending' AND aside = 0 AND tags <> '';
-- The same condition in other words, so that a statement about jobs uses this index and no other one.
CREATE INDEX tasks_ready_jobs ON tasks (project, queue, callee, priority DESC, number)
  WHERE state = 'pending' AND ready_at = 0 AND aside < 1 AND callee IS NOT NULL;
CREATE INDEX tasks_ready_limited ON tasks (project, limit_group, queue, callee, limit_size, priority DESC, number)
  WHERE state = 'pending' AND ready_at = 0 AND limit_group IS NOT NULL;
CREATE INDEX tasks_aside ON tasks (project, queue, aside, priority DESC, number)
  WHERE state = 'pending' AND ready_at = 0 AND aside > 0;
CREATE INDEX tasks_claimed ON tasks (project, look_at) WHERE state = 'claimed';
-- Finds the event that recorded a grant: there may be very many refusals after it.
CREATE INDEX events_granted ON events (project, subject, epoch, number)
  WHERE event IN ('task.claimed', 'hold.taken', 'hold.transferred');

CREATE TRIGGER tasks_insert_stirs AFTER INSERT ON tasks
  WHEN new.limit_group IS NOT NULL AND new.state = 'pending' AND new.ready_at = 0 BEGIN
    INSERT INTO stirred (project, limit_group, task, rank)
      VALUES (new.project, new.limit_group, new.number, new.priority) ON CONFLICT DO NOTHING;
  END;
-- The rank is the task's priority if it became ready; 9, before all others, if it has freed room in its group.
CREATE TRIGGER tasks_update_stirs AFTER UPDATE OF state, ready_at ON tasks
  WHEN new.limit_group IS NOT NULL AND new.state <> 'claimed' BEGIN
    INSERT INTO stirred (project, limit_group, task, rank)
      VALUES (new.project, new.limit_group, new.number,
              CASE WHEN old.state = 'claimed' OR new.state <> 'pending' THEN 9 ELSE new.priority END)
      ON CONFLICT (project, limit_group, task) DO UPDATE SET rank = max(rank, excluded.rank);
  END;

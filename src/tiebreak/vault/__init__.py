"""A vault: the board as a folder of Markdown notes, for Obsidian and every other reader of Markdown.

There is one note for each task, announcement, question, agent and thread of messages, and `Board.md`, which lists open
questions, what failed and what is to do. Notes link to each other: a bug to its fix, the fix to its acknowledgement, an
agent to the tasks that it abandoned. The board is authoritative. A vault is a copy that can be deleted and made again.

How it stays complete, whenever its writer is killed:

- The log of events says what changed. `mirror` reads it in batches from the vault's own cursor. Each event names the
  notes that it may change (`changes`), and each of these notes is made anew from what the board has now (`task_note`,
  `agent_note`, `thread_note`, `board_note`). So making a note twice gives the same note.
- A note is written beside its old version and renamed into place. The cursor moves only when all notes of its batch are
  on the disk. After a kill, the batch is read again, and its notes are made again.
- A note depends only on what events tell. Times that pass without an event (heartbeats, leases) are not in it.
- What an agent did is the one thing that the board does not list. It is added up from the log (`agent_history`), and
  each sum knows its last event, so that no event counts twice.

What people write is never lost (`kept_text`): the section at the end of a note is kept byte for byte, and if the part
above it was changed, the changed note is copied aside before it is written again. Text from the board is inert in
a note (`markdown`), and file names are made from numbers (`note_names`). `open_folder` never leaves the vault.
"""

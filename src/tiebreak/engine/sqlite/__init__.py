"""The board in one SQLite file.

- `engine` runs operations. `transaction` is what an operation gets.
- `write_gate` is the queue of writers, `readers` the pool of connections for reading.
- `opening` makes or upgrades the file. `board_files`, `board_files_opening` and `board_files_repair` make sure that it
  is used under one name only, with the write-ahead log (WAL) that belongs to it; `file_facts` reads what they need from
  the database.
- `wal_checkpoint` keeps the WAL short. `file_watch` wakes callers that wait for a change.
- `backup` and `health` are for the operator. `sqlite_errors` turns SQLite's errors into ours.
"""

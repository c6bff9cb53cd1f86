"""The board in one SQLite file.

`engine` runs operations. `write_gate` is the queue of writers, `transaction` what an operation gets, `readers` the
connections for reading, `wal_checkpoint` keeps the log short. `opening` makes or upgrades the file, `board_files` makes
sure that it is used under one name only, `file_watch` wakes those who wait for a change, `backup` and `health` are for
the operator.
"""

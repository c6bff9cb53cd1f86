"""Moving a board to another database, backups of a board on PostgreSQL, and restoring backups.

- `moving` is the move: three commits, of which the second decides.
- `copying` copies the rows.
- `endpoints` declares what a move needs of the source and of the target. `sqlite_endpoint` and `postgres_endpoint`
  implement it, and `opening` opens the one that an address names.
- `server_backup` copies a board on PostgreSQL to a SQLite file.
- `restoring` restores a backup into a board. `backup_file` checks the file, and `restore_rules` says what happens to
  each table.
"""

"""Moving a board to another engine, and copying a board on a server to a file.

`moving` is the move: three commits, of which one decides. `copying` takes the rows across. `endpoints` says what a move
asks of both ends; `sqlite_endpoint` and `postgres_endpoint` are the two, and `ends` knows which one an address names.
`server_backup` is a backup of a board on PostgreSQL.
"""

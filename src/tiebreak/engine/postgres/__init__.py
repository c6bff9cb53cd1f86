"""The board in PostgreSQL.

- `engine` runs operations and repeats them after a conflict. `write_attempt` is one attempt of a write, and finds out
  whether it was committed if the connection breaks.
- `transaction_settings` is how every transaction begins. `transaction` is what an operation gets.
- `opening` makes or upgrades the tables. `notifications` wakes callers that wait for a change.
- `server_errors` says which errors are temporary, and turns the server's errors into ours.
- `health` is what `tb doctor` checks.
"""

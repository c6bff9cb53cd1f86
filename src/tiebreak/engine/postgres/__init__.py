"""The board in PostgreSQL.

`engine` runs operations and `write_attempt` one try of a write, with what becomes of it when the connection breaks.
`transaction_settings` is how every transaction begins, `transaction` what an operation gets. `notifications` wakes
those who wait for a change, `opening` makes or upgrades the tables, `server_errors` tells what went wrong.
"""

"""The daemon: serves the operations of a board over HTTP, on a unix socket and on TCP.

It keeps no state of its own that matters: the database stays the only authority, and other processes may use the board
directly at the same time. What the daemon adds is group commit (many writes share one sync of the disk), waiting, and
event streams. A request passes these modules in this order:

    http_protocol       the connection: which user is connected; limits on time and size
    security            Host, Origin, and who asks: by token, or by cookie (`browser_sessions`)
    app                 finds the route, reads the body, turns errors into HTTP statuses
    rpc · event_stream · mcp_route · hook_route · admin_routes · pages · web      the handlers of the routes
    service             runs operations: writes through `writer`, reads on threads, waits through `waiters`

`server` assembles these parts and runs the daemon from start to shutdown; `lock` allows one daemon for each board.
Protocols of other programs are in `tiebreak.compat`, which adds its routes to the table in `routes`.
"""

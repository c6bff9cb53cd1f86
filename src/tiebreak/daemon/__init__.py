"""The daemon: the same operations over HTTP, committed together, watched live.

It adds nothing to the truth. A request passes, in this order:

    protocol   the connection: who is at the other end, and that a request arrives in time
    security   Host, Origin, token: before anything is looked at, on every route
    app        the route, the body, and what is wrong with them
    rpc · coord · workron · streams · pages      one small module for each way to say it
    service    an operation: writes go to the writer, reads to a thread, waits to the hub

`server` puts it together and looks after its life: one daemon for each board, start, drain, stop.
"""

"""`tb top`: the board on one screen, in a terminal.

`snapshot` reads what one frame shows, `frame` lays it out as lines of text, and `actions` has what the keys do. None of
them knows Textual, so `tb top --once` and many tests do without it. `follower` waits for events in threads, and `peek`
reads what is shown of one selected thing. `app`, `keys`, `widgets`, `peek_pane` and `dialogs` are the Textual
application.

Text from the board is made safe where a line is made (`frame`, `peek`), and Textual never reads it as markup.
"""

"""The board as six tools for language models: what `tb mcp` and the daemon's `/mcp` offer alike.

`declared` says what a model is told of them, `calls` does what they say, `shown` is how records, and the words of
other agents in them, reach a model. Nothing here imports the MCP SDK but `server`, which joins the three to it.
"""

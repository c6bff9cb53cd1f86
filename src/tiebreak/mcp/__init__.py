"""The tools that language models use through the Model Context Protocol (MCP).

They are the same in `tb mcp` (over stdio) and at the daemon's `/mcp` (over HTTP).

    tools       declares the tools: names, descriptions and schemas
    calls       runs a tool on the board
    rendering   turns records into the answers that a model reads, and marks text of other agents as untrusted
    server      makes an MCP server of these three; the only module that imports the MCP SDK
"""

"""Other people's code and servers: plugins at five edges, and MCP. Nothing in here runs before it was switched on."""

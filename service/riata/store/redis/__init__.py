"""The shared store: Lua scripts on Redis, and the connection that runs them."""

"""The shared store: Lua scripts on a Redis, and the one connection that runs them."""

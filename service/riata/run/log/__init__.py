"""The log in this process: the thread that owns the store, batches of requests, and reading in order."""

"""The embedded store of a single process: one SQLite database, and files of long payloads."""

"""The embedded store: one SQLite database, and files of long payloads, of one process."""

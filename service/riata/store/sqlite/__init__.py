"""The embedded store: one SQLite file of one process."""

"""The one writer: its queue, its threads, and what it publishes and saves."""

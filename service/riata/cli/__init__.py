"""Rank 7: the subcommands (verbs) of the command line."""

"""Several processes on one shared store: electing the leader, following it, and publishing its models to the followers."""

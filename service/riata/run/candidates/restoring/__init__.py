"""Going back: a model as it was after one of its events."""

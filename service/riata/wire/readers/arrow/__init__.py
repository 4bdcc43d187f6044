"""The reader of Arrow streams."""

"""The reader of the text format of Vowpal Wabbit."""

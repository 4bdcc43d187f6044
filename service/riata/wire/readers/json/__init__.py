"""The reader of JSON: one example a line, one example, or an array of them."""

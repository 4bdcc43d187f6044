"""Routes, the documents they take and give, and errors."""

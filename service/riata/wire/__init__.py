"""Rank 2: parses the bytes of a request into a checked CSR `Batch`."""

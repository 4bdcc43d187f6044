"""Rank 2: bytes of a request become a checked CSR `Batch`."""

"""Rank 6: HTTP. Hot routes are plain ASGI, the rest is FastAPI."""

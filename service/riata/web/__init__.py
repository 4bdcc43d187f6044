"""Rank 6: the HTTP server. Hot routes are plain ASGI, all others are FastAPI."""

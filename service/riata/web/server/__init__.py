"""Connections: limits, one request after the other, and the bridge to ASGI."""

"""Delayed labels: predictions are stored until their label arrives, joined exactly once, or expire or get a default label."""

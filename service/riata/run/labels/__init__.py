"""Predictions that wait for their label: kept, joined exactly once, or given a label when their time is over."""

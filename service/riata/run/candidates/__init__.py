"""Candidates: other states of the same log. Each has a source, learns the log, is judged, and is put in place by one event.

learning   what a log says of its past; the state after an event, or without some rows
judging    losses of the same events, their difference with its interval, verdicts
promotion  the events that put a state in place

Sources: a batch solver (`refits`), other settings (`challengers`, `backfill`, `backtest`), the log without some rows
(`forgetting`) or up to an event (`going_back`), a file (`exports`). The decision is `adr/0092`.
"""

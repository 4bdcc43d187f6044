"""The state that the log of a model determines: its configuration, recovery, replay, upgrades and repair."""

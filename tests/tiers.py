"""Which tests only `make test-all` runs, by what they guard."""

from __future__ import annotations

from typing import Final

# What `make test` leaves to `make test-all`: beginnings of names of tests.
FULL: Final = (
    # Faults: kills, damage and power cuts of real processes, histories that are simulated.
    "chaos/",
    "cli/test_backup.py",
    "cli/test_sending.py",
    "run/test_roles_redis.py",
    "simulation/",
    "store/test_crash.py",
    "store/test_redis_tampering.py",
    "store/test_redis_transports.py",
    # Clients that attack a running service.
    "web/attack/test_browser.py",
    "web/attack/test_connections.py",
    "web/attack/test_keys_running.py",
    "web/attack/test_memory.py",
    "web/attack/test_slow.py",
    # Random input at length, sanitizers, and whether the tests notice mistakes.
    "fuzz/",
    "learn/test_paper_design.py",
    "learn/test_paper_tables.py",
    "mutants/",
    "native/test_batch_safety.py",
    "native/test_learners.py::test_learners_touch",
    "native/test_particle_safety.py",
    "native/test_safety.py",
    "native/test_sketch_safety.py",
    "web/test_contract.py",
    # The console in a browser.
    "web/test_console_browser.py",
    # Commands that need several processes each: brokers, clusters, refits that take long.
    "cli/test_curves.py::test_curves_are_learnt_explained_killed_replayed_and_exported",
    "cli/test_feed",
    "cli/test_open_store.py",
    "cli/test_refit",
    "run/test_refit_share.py",
    "scale/test_dask.py",
    # Deployment, directories of other releases, the commands of the documents, benches.
    "bench/",
    "deploy/",
    "docs/test_commands_run.py",
    "docs/test_how_to",
    "docs/test_notebooks.py",
    "upgrades/",
)
# What it runs of these: a journey with kills, a fleet, a page in a browser, and the bits that a log replays to.
EVERY_DAY: Final = (
    "chaos/test_kill.py",
    "run/test_roles_redis.py::test_a_fleet_learns_events_accepted_by_any_web_and_survives_its_writer_and_its_redis",
    "upgrades/test_bits.py::test_a_stored_log_replays_to_the_bits_it_always_did",
    "web/test_console_browser.py::test_every_page_shows_its_figures_in_light_and_dark_and_narrow[learning]",
)

"""Defects that the simulation found, each as the shortest history that shows it."""

from __future__ import annotations

import copy

import pytest

from riata.run.cluster.follower import Follower
from riata.run.cluster.ledger import Ledger
from riata.run.cluster.store_identity import StoreIdentityFile
from riata.run.served_model import Catalogue, ServedModel
from riata.run.state.config import config_payload, read_config
from riata.store.store import Append, Appended
from riata.wire.encoder import EncoderConfig
from tests.doubles.manual_clock import ManualClock
from tests.doubles.shared_memory_store import SharedMemoryStore
from tests.store.batches import observe, one_row

MODEL = "default"
LINEAGE = bytes(range(16))


class Followed:
    """A store that can be rolled back, with one process that appends to its log and follows it."""

    def __init__(self) -> None:
        self.store = SharedMemoryStore()
        self.store.create(MODEL, LINEAGE)
        self.store.append([Append(MODEL, "config", 0, payload=config_payload(read_config({})))])
        self.catalogue = Catalogue()
        self.catalogue.put(ServedModel.open(MODEL, EncoderConfig(), 1, LINEAGE))
        self.follower = Follower(self.catalogue, ManualClock(), Ledger(StoreIdentityFile(None), 0))
        self.follower.step(self.store)

    def here(self, key: int) -> Appended:
        """Append by this process, which gets the acknowledgement."""
        append = observe(MODEL, one_row(key))
        appended = self.store.append([append])[0]
        self.catalogue.served_models[MODEL].on_logged(append, appended)
        assert appended.record is not None
        self.catalogue.served_models[MODEL].note_acked(appended.record)
        return appended

    def elsewhere(self, *keys: int) -> None:
        """Append by another process."""
        for key in keys:
            self.store.append([observe(MODEL, one_row(key))])

    def look(self) -> tuple[int, int]:
        """Take a step; returns how often the log was found rolled back, and the minimum number of missing acknowledged events."""
        self.follower.step(self.store)
        return self.follower.counts.rolled_back, self.follower.ledger.lost().get(MODEL, 0)


def test_a_log_that_only_grows_is_not_reported_as_rolled_back() -> None:
    followed = Followed()
    followed.here(1)
    followed.elsewhere(2, 3)
    assert followed.look() == (0, 0)
    followed.here(4)
    followed.here(5)
    followed.elsewhere(6)
    assert followed.look() == (0, 0)
    assert followed.look() == (0, 0)


@pytest.mark.parametrize("grown", [0, 1, 2, 5])
def test_a_log_that_was_rolled_back_is_noticed_however_far_it_has_grown_since(grown: int) -> None:
    followed = Followed()
    before = copy.deepcopy(followed.store._kept)
    followed.here(1)
    followed.here(2)
    assert followed.look() == (0, 0)
    followed.store._kept = before
    followed.elsewhere(*range(10, 10 + grown))
    rolled_back, lost = followed.look()
    assert rolled_back == 1
    assert lost >= 1


def test_an_acknowledgement_that_was_taken_back_is_noticed_after_a_later_one() -> None:
    """All of this happens between two polls."""
    followed = Followed()
    before = copy.deepcopy(followed.store._kept)
    followed.here(1)
    followed.store._kept = before
    followed.elsewhere(10, 11, 12)
    followed.here(2)
    rolled_back, lost = followed.look()
    assert rolled_back == 1
    assert lost >= 1

"""What commands say of work that is not done yet."""

from __future__ import annotations

from typing import Any, cast

from riata.cli.connect import behind, wait_until_it_listens, wait_until_ready
from riata.client import Riata, Unreachable
from riata.client.errors import ApiError


class Asked:
    """Answers with these documents, one after the other, and notes the pauses."""

    def __init__(self, *documents: dict[str, Any]) -> None:
        self.documents = list(documents)

    def status(self) -> dict[str, Any]:
        return self.documents.pop(0)

    def model(self, _name: str) -> dict[str, Any]:
        return self.documents.pop(0)


def not_ready(why: str, **others: str) -> dict[str, Any]:
    attention = [{"model": None, "sentence": why}, *({"model": name, "sentence": one} for name, one in others.items())]
    return {"ready": False, "attention": attention}


def test_each_reason_is_told_once_until_it_is_ready() -> None:
    loading, replaying = "the models are being looked at", "replaying the log: 1 of 2 events"
    asked = Asked(not_ready(loading), not_ready(loading, m="its labels"), not_ready(replaying), {"ready": True, "attention": []})
    said, paused = list[str](), list[float]()
    wait_until_ready(cast(Riata, asked), said.append, paused.append)
    assert [one.removeprefix("waiting, the service is not ready yet: ") for one in said] == [loading, replaying]
    assert len(paused) == 3


class Starting:
    """Listens after some tries."""

    def __init__(self, tries: int) -> None:
        self.left = tries

    def version(self) -> dict[str, Any]:
        if self.left:
            self.left -= 1
            raise Unreachable("connection refused")
        return {}


def test_a_service_that_does_not_listen_yet_is_waited_for_and_not_for_ever() -> None:
    said, paused = list[str](), list[float]()
    wait_until_it_listens(cast(Riata, Starting(0)), said.append, 5, paused.append)
    assert (said, paused) == ([], [])
    wait_until_it_listens(cast(Riata, Starting(3)), said.append, 5, paused.append)
    assert len(paused) == 3
    assert "waiting for 5 s, nothing answers yet: connection refused; `make run`" in said[0]
    wait_until_it_listens(cast(Riata, Starting(9)), said.append, 5, paused.append)
    assert (len(said), len(paused)) == (2, 8)


def test_nothing_is_said_of_a_service_that_is_ready() -> None:
    said = list[str]()
    wait_until_ready(cast(Riata, Asked({"ready": True, "attention": []})), said.append)
    assert said == []


class Forbidding:
    """Answers as to a key that may only observe."""

    def model(self, name: str) -> dict[str, Any]:
        raise ApiError(403, {"code": "forbidden", "detail": f"the key does not allow {name}"})


def test_a_key_that_may_only_observe_is_told_nothing() -> None:
    assert behind(cast(Riata, Forbidding()), "clicks") == ""


def test_how_far_learning_is_behind_and_how_to_wait() -> None:
    told = behind(cast(Riata, Asked({"seq_logged": 12345, "seq_applied": 1234})), "clicks")
    assert "learning is 11,111 events behind, at 1,234 of 12,345" in told
    assert "GET /models/clicks/predict?min_seq=12345" in told
    assert behind(cast(Riata, Asked({"seq_logged": 7, "seq_applied": 7})), "clicks") == ""

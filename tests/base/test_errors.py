from __future__ import annotations

import pytest

from riata.base.errors import (
    BadInput,
    Busy,
    Conflict,
    Corrupt,
    LogFork,
    LogGap,
    Malformed,
    NotFound,
    RiataError,
    TooLarge,
    Unavailable,
    nearest,
)


def test_nearest_names_one_similar_word_or_all_words() -> None:
    assert nearest("gravitiy", ["gravity", "ceiling"]) == "did you mean 'gravity'?"
    assert nearest("xyz", ["gravity", "ceiling"]) == "known: ceiling, gravity"


@pytest.mark.parametrize("kind", [BadInput, Malformed, TooLarge, NotFound, Conflict, Corrupt, LogGap, LogFork])
def test_an_error_keeps_its_detail_and_a_code_of_its_branch_or_its_own(kind: type[RiataError]) -> None:
    assert kind("what").detail == str(kind("what")) == "what"
    assert kind("what").code == kind.code
    assert kind("what", "mine").code == "mine"
    assert kind.code != "mine"


def test_each_branch_distinguishes_client_and_server_errors() -> None:
    assert all(issubclass(kind, BadInput) for kind in (Malformed, TooLarge, NotFound, Conflict))
    assert all(issubclass(kind, Corrupt) for kind in (LogGap, LogFork))
    assert not issubclass(Busy, BadInput)


def test_busy_names_the_time_to_retry_and_unavailable_the_outcome_of_the_events() -> None:
    assert Busy("later", "lag", 2.5).retry_after_s == 2.5
    assert Busy("later").code == "busy"
    assert Unavailable("disk").outcome == "not_accepted"
    assert Unavailable("disk", "store_failed", "unknown").outcome == "unknown"

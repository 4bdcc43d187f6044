"""What a command says of work of the service that is not done yet, and how to wait for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from riata.client import Riata

EVERY_S: Final = 1.0
TRIES: Final = 60  # a service that was just started listens within a few seconds


def wait_until_it_listens(
    riata: Riata, say: Callable[[str], None], tries: int = TRIES, pause: Callable[[float], None] = time.sleep
) -> None:
    """Wait until something answers at the URL of the client, for as many seconds as `tries`. Tells `say` that it waits."""
    from riata.client.errors import ApiError, Unreachable

    for number in range(tries):
        try:
            riata.version()
        except Unreachable as error:
            if not number:
                say(f"waiting for {tries} s, nothing answers yet: {error.detail}; `make run` or `riata serve` starts the service")
            pause(EVERY_S)
        except ApiError:
            return  # whoever uses the client gets the error
        else:
            return


def wait_until_ready(riata: Riata, say: Callable[[str], None], pause: Callable[[float], None] = time.sleep) -> None:
    """Wait until the service is ready; tell `say` what it waits for, once for each reason. Raises what the client raises."""
    told = ""
    while not (status := riata.status())["ready"]:
        why = "; ".join(one["sentence"] for one in status["attention"] if one["model"] is None) or "it is starting"
        if why != told:
            say(f"waiting, the service is not ready yet: {why}")
            told = why
        pause(EVERY_S)


def behind(riata: Riata, model: str) -> str:
    """Return how far learning is behind the log of a model, and how to wait for it; empty if it is not, or if the service does
    not say, as to a key that may only observe."""
    from riata.client.errors import ApiError

    try:
        document = riata.model(model)
    except ApiError:
        return ""
    logged, applied = document["seq_logged"], document["seq_applied"]
    if applied >= logged:
        return ""
    return (
        f"all of it is on disk; learning is {logged - applied:,} events behind, at {applied:,} of {logged:,}. Predictions with "
        f"`min_seq={logged}` wait until it is there: GET /models/{model}/predict?min_seq={logged}, or "
        f'riata.predict(rows, model="{model}", min_seq={logged}) in Python; `riata models` shows how far it is'
    )

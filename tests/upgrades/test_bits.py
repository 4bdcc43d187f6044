"""The bits that a log replays to: pinned, and the same for all numbers of threads, instruction sets and sizes of records."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np
import pytest

from riata.learn import registry
from riata.native.sources import VARIANT, library, variants
from riata.run.state import provenance
from tests.running import ROOT
from tests.upgrades.golden_replay import CASES, DIGESTS, FEW, digests, read_log, regrouped, replayed

OTHER_LIBRARY: Final = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX512F"}  # as on a processor without these


@functools.cache
def golden() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(DIGESTS.read_text())
    return found


def expected(names: tuple[str, ...], fingerprint: str) -> dict[str, str]:
    """The pinned digests for an arithmetic. Skips the test if there are none."""
    known = golden()["digests"]
    if fingerprint not in known:
        pytest.skip(
            f"this machine's arithmetic is {fingerprint}, and digests are pinned for {', '.join(known)}: "
            "its C library rounds exp, log, erfc or pow in another way, so its states have other bits"
        )
    return {name: known[fingerprint][name] for name in names}


def elsewhere(names: tuple[str, ...], timeout_s: float, **environment: str) -> dict[str, Any]:
    """The result for the log in a process with another environment."""
    command = [sys.executable, "-m", "tests.upgrades.golden_replay", *names]
    paths = os.pathsep.join((str(ROOT / "service"), str(ROOT)))
    around = {**os.environ, "PYTHONPATH": paths, **environment}
    done = subprocess.run(command, env=around, capture_output=True, text=True, timeout=timeout_s, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_digests_are_those_of_this_version() -> None:
    assert golden()["algo_version"] == registry.ALGO_VERSION, "run `python -m tests.golden.make_replay digests` for this version"
    assert all(list(found) == list(CASES) for found in golden()["digests"].values())


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", CASES)
def test_a_stored_log_replays_to_the_bits_it_always_did(name: str) -> None:
    wanted = expected((name,), provenance.fingerprint())
    assert digests([name]) == wanted, (
        f"{name}: the log is learnt to other bits than ALGO_VERSION {registry.ALGO_VERSION} stands for. If the change is meant, "
        "raise ALGO_VERSION in learn/registry.py and run `python -m tests.golden.make_replay digests`; if not, mend it"
    )


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", FEW)
def test_the_bits_do_not_depend_on_how_events_are_cut_into_records(name: str) -> None:
    log, rng = read_log(), np.random.default_rng(3)
    wanted = replayed(CASES[name], log)
    sizes = rng.integers(1, 30, len(log))
    assert replayed(CASES[name], regrouped(log, lambda _: 1)) == wanted
    assert replayed(CASES[name], regrouped(log, lambda i: int(sizes[i])), together=False) == wanted
    assert replayed(CASES[name], log, together=False) == wanted


def test_the_bits_depend_on_the_events() -> None:
    log = read_log()
    swapped = regrouped(log, lambda _: 1)
    swapped[10], swapped[11] = swapped[11], swapped[10]
    assert replayed(CASES["ftrl"], swapped) != replayed(CASES["ftrl"], log)


@pytest.mark.timeout(1200)
def test_the_bits_do_not_depend_on_threads() -> None:
    here = digests(FEW)
    with ThreadPoolExecutor(4) as threads:
        beside = list(threads.map(lambda name: digests([name])[name], FEW * 2))
    assert beside == list(here.values()) * 2
    for count in ("1", "4"):
        names = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), count)
        assert elsewhere(FEW, 1100, **names)["digests"] == here, f"{count} threads"


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("variant", variants())
def test_the_bits_do_not_depend_on_the_variant_of_the_native_core(variant: str) -> None:
    if not library(variant).exists():
        pytest.skip(f"the variant {variant} is not built in this checkout")
    found = elsewhere(FEW, 1100, **{VARIANT: variant})
    assert found["numerics"] == provenance.fingerprint()
    assert found["digests"] == digests(FEW)

"""The bits that a log replays to: pinned, and the same for all numbers of threads, instruction sets and sizes of records."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from numba.core.codegen import get_host_cpu_features

from riata.learn import registry
from riata.maths import numerics
from tests.running import ROOT
from tests.twins import numerics as twin
from tests.upgrades.golden_replay import CASES, DIGESTS, FEW, digests, read_log, regrouped, replayed

QUICK: Final = ("gradient adaptive normalised", "gradient decaying", "ftrl")  # compiled in little time
AVX2: Final = "+avx2,+fma,+bmi,+bmi2,+popcnt,+sse4.2,+cx16"
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
    wanted = expected((name,), numerics.fingerprint())
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
        names = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "MKL_NUM_THREADS"), count)
        assert elsewhere(FEW, 1100, **names)["digests"] == here, f"{count} threads"


def compiled_for(names: tuple[str, ...], cpu: str, features: str, folder: Path) -> None:
    """Compile for another instruction set, and compare with the results of this machine's."""
    about = {"NUMBA_CPU_NAME": cpu, "NUMBA_CPU_FEATURES": features, "NUMBA_CACHE_DIR": str(folder)}
    found = elsewhere(names, 3500, **about)
    assert found["numerics"] == numerics.fingerprint()
    assert found["digests"] == digests(names)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_bits_do_not_depend_on_vector_instructions_in_the_simplest_case(tmp_path: Path) -> None:
    compiled_for(QUICK, "x86-64", "", tmp_path)  # SSE2, which every such processor has


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("cpu", "features"), [("x86-64", ""), ("haswell", AVX2), ("skylake-avx512", None)])
def test_the_bits_do_not_depend_on_vector_instructions(cpu: str, features: str | None, tmp_path: Path) -> None:
    known = get_host_cpu_features()
    needed = {"haswell": ["avx2", "fma"], "skylake-avx512": ["avx512f", "avx512bw", "avx512dq", "avx512vl"]}.get(cpu, [])
    if missing := [name for name in needed if not known.get(name)]:
        pytest.skip(f"this processor has no {', '.join(missing)}")
    chosen = ",".join(f"+{name}" for name in [*needed, "sse4.2", "popcnt", "bmi", "bmi2"]) if features is None else features
    compiled_for(tuple(CASES), cpu, chosen, tmp_path)


@pytest.mark.timeout(1200)
def test_another_c_library_is_recognised_by_the_fingerprint() -> None:
    found = elsewhere(QUICK, 1100, **OTHER_LIBRARY)
    if found["numerics"] == numerics.fingerprint():
        assert found["digests"] == digests(QUICK)  # the library took no notice, or this processor has none of these anyway
        pytest.skip("glibc computes the same bits with and without FMA on this processor")
    wanted = golden()["digests"]
    if found["numerics"] in wanted:
        assert found["digests"] == {name: wanted[found["numerics"]][name] for name in QUICK}
    assert found["digests"]["ftrl"] == digests(["ftrl"])["ftrl"]


def test_the_functions_in_the_fingerprint_are_what_they_are_called() -> None:
    x, power, rest = numerics.points()
    out, slow = np.empty((len(x), numerics.COLUMNS)), np.empty((len(x), numerics.COLUMNS))
    numerics.leaves(x, power, rest, out)
    twin.leaves(x, power, rest, slow)
    np.testing.assert_allclose(out, slow, rtol=4e-16, atol=5e-324)
    assert (out[:, 7] == 0.0).all(), "a product and a sum were done with one rounding"


def test_the_fingerprint_sees_one_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    before = numerics.fingerprint.__wrapped__()
    assert before == numerics.fingerprint()
    assert len(before) == 16
    whole = numerics.leaves

    def with_one_bit_more(x: Any, power: Any, rest: Any, out: Any) -> None:
        whole(x, power, rest, out)
        out[17, 4] = np.nextafter(out[17, 4], 9.0)

    monkeypatch.setattr(numerics, "leaves", with_one_bit_more)
    assert numerics.fingerprint.__wrapped__() != before

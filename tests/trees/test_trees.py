"""Functional decision trees: golden values, twins, refusals, and the same tree on any number of threads."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riata.base.arrays import F64, I64
from riata.base.errors import BadInput, Malformed
from riata.lab import growing as split
from riata.lab.growing import Growth, grow, room
from riata.store.layout import decode_checkpoint, encode_checkpoint
from riata.trees import curves as fast
from riata.trees.curves import (
    NO_WINDOW,
    Curves,
    CurveVariable,
    Variable,
    curve_variable,
    number_variable,
    rows_of,
    variables_of,
)
from riata.trees.tree import LEAF, Tree, code_words, decode, read_tree
from tests.batch.designs import golden
from tests.refused import refused
from tests.trees.curves import of_kinds
from tests.twins import trees as slow

DTW, FDT = golden("dtw.json"), golden("fdt.json")


def flat(curve: Any) -> F64:
    """Channel by channel."""
    points = np.array(curve, np.float64)
    return np.ascontiguousarray(points.T).ravel()


def warp(a: F64, b: F64, channels: int, window: int) -> float:
    """The distance of two curves."""
    start = np.cumsum([0, len(a) // channels, len(b) // channels])
    out = np.zeros((2, 2))
    fast.warp_pairs(Curves(start, np.concatenate([a, b]), channels), window, 1, 2, out)
    return float(out[1, 0])


@pytest.mark.parametrize("pair", DTW["pairs"])
def test_warped_distances_are_the_golden_ones_exactly(pair: dict[str, Any]) -> None:
    a, b = flat(pair["a"]), flat(pair["b"])
    assert warp(a, b, 1, NO_WINDOW) == pair["squared"]
    for window in (1, 2):
        wanted = pair[f"squared_window_{window}"]
        found = warp(a, b, 1, window)
        if wanted is None:  # no path: the window is widened to the difference of the lengths
            wanted = warp(a, b, 1, abs(len(a) - len(b)))
        assert found == wanted


def test_warped_distances_of_several_channels_are_the_golden_ones() -> None:
    for pair in DTW["multivariate"]:
        assert warp(flat(pair["a"]), flat(pair["b"]), 2, NO_WINDOW) == pair["squared"]


@settings(max_examples=60)
@given(seed=st.integers(0, 9999), channels=st.integers(1, 3), window=st.integers(-1, 9))
def test_warping_is_that_of_the_twin_also_where_it_may_end_early(seed: int, channels: int, window: int) -> None:
    rng = np.random.default_rng(seed)
    a, b, c = (rng.standard_normal(channels * rng.integers(1, 45)) for _ in range(3))
    near, far = warp(a, b, channels, window), warp(a, c, channels, window)
    assert near == pytest.approx(slow.warp(a, b, channels, window), rel=1e-12)
    for left, right, wanted in ((b, c, near <= far), (c, b, far <= near), (b, b, True)):
        pair = fast.prototypes_of(left, right, channels)
        curves = Curves(np.array([0, len(a) // channels]), a, channels)
        assert fast.nearer_left(curves, np.zeros(1, np.int64), pair, window, True).tolist() == [wanted]


def ragged(seed: int, n: int = 12, channels: int = 2) -> Curves:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 9, n)
    start = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Curves(start, np.round(rng.standard_normal(channels * int(start[-1])), 1), channels)


def test_pairs_and_sides_are_those_of_the_twin() -> None:
    curves = ragged(1)
    distance, wanted = np.zeros((12, 12)), np.zeros((12, 12))
    fast.warp_pairs(curves, 2, 3, 12, distance)
    slow.warp_pairs(curves, 2, 3, 12, wanted)
    np.testing.assert_allclose(distance, wanted, rtol=1e-12)
    assert np.all(distance[:3] == 0.0)
    at, left, right = np.array([0, 5, 5, 11]), slow.curve(curves, 2), slow.curve(curves, 7)
    found = fast.nearer_left(curves, at, fast.prototypes_of(left, right, 2), NO_WINDOW, True)
    assert found.tolist() == slow.nearer_left(curves, at, left, right, NO_WINDOW, True)
    even = Curves(np.arange(0, 49, 4), np.random.default_rng(2).standard_normal(96), 2)
    left, right = slow.curve(even, 3), slow.curve(even, 4)
    assert fast.nearer_left(even, at, fast.prototypes_of(left, left, 2), NO_WINDOW, False).all()  # equal distances go left
    found = fast.nearer_left(even, at, fast.prototypes_of(left, right, 2), NO_WINDOW, False)
    assert found.tolist() == slow.nearer_left(even, at, left, right, NO_WINDOW, False)


def test_impurity_is_the_golden_one() -> None:
    for one in FDT["gini"]:
        assert split.gini(np.array(one["counts"], np.float64)) == pytest.approx(one["gini"], abs=1e-12)
    for one in FDT["splits"]:
        label = np.concatenate([np.repeat(np.arange(len(one[side])), one[side]) for side in ("left", "right")])
        side = np.arange(len(label)) < sum(one["left"])
        apart = (side[:, np.newaxis] != side).astype(np.float64)  # so that medoids part the sides
        decrease, _, _ = split.best_medoids(apart, label, len(one["left"]), np.array([[0, len(label) - 1]]))
        assert decrease == pytest.approx(one["impurity_decrease"], abs=1e-12)


@pytest.mark.parametrize("run", FDT["kmeans"]["runs"])
def test_two_means_are_the_golden_ones(run: dict[str, Any]) -> None:
    x = np.array(FDT["kmeans"]["curves"])
    means, label = np.empty((2, x.shape[1])), np.arange(len(x)) % 2
    split.best_means(x, label, 2, np.array([run["init_1_based"]]) - 1, means)
    np.testing.assert_allclose(means, [run["x_l"], run["x_r"]], atol=1e-12)
    is_left = ((x - means[0]) ** 2).sum(axis=1) <= ((x - means[1]) ** 2).sum(axis=1)
    assert (~is_left).astype(int).tolist() == run["assignment"]


@settings(max_examples=30)
@given(seed=st.integers(0, 9999), n=st.integers(2, 15), classes=st.integers(2, 4))
def test_splits_are_those_of_the_twins(seed: int, n: int, classes: int) -> None:
    rng = np.random.default_rng(seed)
    x, label = np.round(rng.standard_normal((n, 3)), 1), rng.integers(0, classes, n)
    pairs = np.array([rng.choice(n, 2, replace=False) for _ in range(4)])
    distance = ((x[:, np.newaxis] - x[np.newaxis]) ** 2).sum(axis=2)
    distance = np.round(8.0 * distance) / 8.0  # sums are exact, so ties are ties in any order
    found, wanted = split.best_medoids(distance, label, classes, pairs), slow.best_medoids(distance, label, classes, pairs)
    assert found[0] == pytest.approx(wanted[0], abs=1e-12)
    prototypes = np.empty((2, 2, 3))
    for chosen in (pairs, *np.split(pairs, len(pairs))):
        if len(chosen) == 1:
            assert (
                split.best_medoids(distance, label, classes, chosen)[1:]
                == slow.best_medoids(distance, label, classes, chosen)[1:]
            )
        best = split.best_means(x, label, classes, chosen, prototypes[0])
        assert best == pytest.approx(slow.best_means(x, label, classes, chosen, prototypes[1]), abs=1e-12)
        if best >= 0.0 and len(chosen) == 1:
            np.testing.assert_allclose(prototypes[0], prototypes[1], atol=1e-12)
    decrease, threshold = split.best_threshold(x[:, 0], label, classes)
    cuts = np.unique(x[:, 0])[:-1]
    every = [slow.decrease_of(x[:, 0] <= cut, label, classes) for cut in cuts] or [-1.0]
    assert decrease == pytest.approx(max(every), abs=1e-12)
    if len(cuts):
        assert slow.decrease_of(x[:, 0] <= threshold, label, classes) == pytest.approx(decrease, abs=1e-12)


def test_codes_decode_as_the_golden_one_and_tell_all_classes_apart() -> None:
    code = np.array(FDT["ecoc"]["code"])
    for one in FDT["ecoc"]["decode"]:
        assert decode(np.array([one["bits"]]), code).tolist() == [one["decoded_class"] - 1]
    for classes in (2, 3, 4, 5, 9, 15, 16, 40, 300):
        words = code_words(classes)
        assert len(np.unique(words, axis=0)) == classes
        assert len(np.unique(words, axis=1).T) == words.shape[1]
        assert np.all((words.sum(axis=0) > 0) & (words.sum(axis=0) < classes))
    nine = code_words(9)
    apart = [(nine[i] != nine[j]).sum() for i in range(9) for j in range(i)]
    assert nine.shape == (9, FDT["ecoc"]["bits"])
    assert min(apart) == FDT["ecoc"]["min_distance"]
    for classes in (1, 1001):
        with pytest.raises(BadInput):
            code_words(classes)


def rows(each: int = 15, seed: int = 0) -> tuple[list[F64], I64]:
    """Curves of three classes, of 14 to 16 points."""
    x, y = of_kinds((0, 1, 2), each, np.random.default_rng(seed))
    return [one[: 112 + 8 * (i % 3) : 8] for i, one in enumerate(x)], y


def same(a: Tree, b: Tree) -> bool:
    return a.encode() == b.encode()


@pytest.mark.parametrize("code", [False, True])
@pytest.mark.parametrize("memory", [2**30, 3000])
def test_a_tree_is_the_same_on_any_number_of_threads_and_in_its_file(code: bool, memory: int) -> None:
    x, y = rows()
    number = number_variable("n", np.arange(45) % 7)
    variables: list[Variable] = [curve_variable("x", x, window=4), number]
    growth = Growth(restarts=8, code=code, memory_bytes_max=memory)
    assert (room(variables, growth) < 45) == (memory == 3000)
    tree = grow(variables, y, ["a", "b", "c"], growth)
    assert same(tree, grow(variables, y, ["a", "b", "c"], Growth(restarts=8, code=code, memory_bytes_max=memory, threads=3)))
    assert not same(tree, grow(variables, y, ["a", "b", "c"], Growth(restarts=8, code=code, memory_bytes_max=memory, seed=1)))
    again = read_tree(tree.encode())
    assert same(again, tree)
    test_x, test_y = rows(20, 5)
    others: list[Variable] = [curve_variable("x", test_x, window=4), number_variable("n", np.zeros(60))]
    found = again.predict(others)
    assert np.array_equal(found, tree.predict(others))
    assert (found == test_y).mean() > 0.7
    one_by_one = [int(tree.predict([curve_variable("x", [x]), number_variable("n", [0.0])])[0]) for x in test_x[:9]]
    assert len(one_by_one) == 9
    if not code:
        np.testing.assert_allclose(tree.probabilities(others).sum(axis=1), 1.0)


def test_every_row_is_where_the_counts_say_and_pruning_makes_no_more_errors() -> None:
    x, y = rows()
    variables = [curve_variable("x", x)]
    whole = grow(variables, y, [0, 1, 2], Growth(restarts=8, prune=0.0))
    at = whole.leaves(variables)[:, 0]
    for leaf in np.unique(at):
        assert np.bincount(y[at == leaf], minlength=3).tolist() == whole.counts[leaf].tolist()
    assert np.all(whole.predict(variables) == y)
    noisy = y.copy()
    noisy[::4] = (noisy[::4] + 1) % 3
    grown = grow(variables, noisy, [0, 1, 2], Growth(restarts=8, prune=0.0, depth=1))
    assert len(grown.variable) <= 3
    pruned = grow(variables, noisy, [0, 1, 2], Growth(restarts=8, prune=0.3))
    full = grow(variables, noisy, [0, 1, 2], Growth(restarts=8, prune=0.0))
    assert len(pruned.variable) < len(full.variable)


def test_a_number_splits_if_it_tells_more_than_the_curves() -> None:
    x, y = rows()
    tree = grow([curve_variable("x", x), number_variable("n", y * 2.0)], y, [0, 1, 2], Growth(restarts=5, prune=0.0))
    inner = tree.variable != LEAF
    assert set(tree.variable[inner].tolist()) == {1}
    assert sorted(tree.threshold[inner].tolist()) == [1.0, 3.0]


@pytest.mark.parametrize(
    ("curves", "distance", "code", "said"),
    [
        ([[1.0], []], "dtw", "empty_curve", "row 1"),
        ([[1.0], [1.0, math.nan]], "dtw", "not_finite", "row 1: point 1"),
        ([[[1.0, 2.0]], [[1.0]]], "dtw", "channels_differ", "row 1"),
        ([[1.0], [[1.0], [1.0, 2.0]]], "dtw", "channels_differ", "row 1"),
        ([["a"]], "dtw", "channels_differ", "row 0"),
        ([[1.0, 2.0], [1.0]], "euclid", "lengths_differ", "use dtw"),
        ([[1.0]], "cosine", "out_of_range", "dtw, euclid"),
    ],
)
def test_curves_that_cannot_be_are_refused_by_row(curves: Any, distance: str, code: str, said: str) -> None:
    with pytest.raises(BadInput) as refused:
        curve_variable("ecg", curves, distance)
    assert refused.value.code == code
    assert said in refused.value.detail


def test_rows_that_do_not_fit_the_tree_are_refused() -> None:
    x, y = rows()
    tree = grow([curve_variable("x", x)], y, [0, 1, 2], Growth(restarts=4))
    assert len(variables_of({"x": x, "more": x}, "dtw", None, tree.variables)) == 1
    for other, code in (({"y": x}, "no_variable"), ({"x": [[[1.0, 2.0]]]}, "channels_differ")):
        with pytest.raises(BadInput) as refused:
            variables_of(other, "dtw", None, tree.variables)
        assert refused.value.code == code
    with pytest.raises(BadInput):
        tree.predict([curve_variable("x", [[[1.0, 2.0]]])])
    with pytest.raises(BadInput):
        tree.predict([number_variable("x", [1.0])])
    with pytest.raises(BadInput):
        rows_of([curve_variable("x", x), number_variable("n", [1.0])])
    with pytest.raises(BadInput):
        grow([curve_variable("x", x)], y[:3], [0, 1, 2], Growth())
    with pytest.raises(BadInput):
        number_variable("n", [1.0, math.inf])
    for bad in ({"restarts": 0}, {"prune": 1.0}, {"depth": -1}, {"leaf": 0}):
        with pytest.raises(BadInput):
            Growth(**bad)


def test_a_window_without_a_path_is_widened() -> None:
    variable = curve_variable("x", [[1.0, 2.0, 3.0, 4.0], [1.0]], window=1)
    assert variable.widened() == 3
    assert curve_variable("x", [[1.0, 2.0], [1.0]], window=1).widened() == 0
    assert curve_variable("x", [[1.0, 2.0, 3.0], [1.0]]).widened() == 0
    with pytest.raises(BadInput):
        curve_variable("x", [[1.0]], window=-1)


def test_damaged_files_are_refused() -> None:
    x, y = rows()
    tree = grow([curve_variable("x", x)], y, [0, 1, 2], Growth(restarts=4, prune=0.0))
    content = tree.encode()
    header, arrays = decode_checkpoint(content)
    for broken in (b"", content[:-1], content[:200] + b"x" + content[201:]):
        with refused(Malformed, "not_a_tree"):
            read_tree(broken)

    def changed(name: str, value: Any) -> bytes:
        return encode_checkpoint(header, {**arrays, name: value})

    loop, far = arrays["left"].copy(), arrays["right"].copy()
    loop[0], far[0] = 0, 10**6
    for bad in (
        changed("left", loop), changed("right", far), changed("threshold", arrays["threshold"][:-1]),
        changed("prototype", arrays["prototype"] + 100), changed("counts", arrays["counts"] * 0),
        changed("root", arrays["root"].astype(np.int64)), changed("code", np.zeros((3, 1), np.int64)),
        encode_checkpoint({**header, "kind": "model"}, arrays), encode_checkpoint({**header, "variables": []}, arrays),
    ):  # fmt: skip
        with pytest.raises(Malformed):
            read_tree(bad)
    (own,) = header["variables"]
    (narrow,) = read_tree(encode_checkpoint({**header, "variables": [{**own, "window": 0}]}, arrays)).variables
    assert isinstance(narrow, CurveVariable)
    assert (narrow.distance, narrow.window) == ("dtw", 0)
    for wrong in (
        {"window": 2**31},
        {"window": -1},
        {"window": 1.5},
        {"distance": "euclid"},
    ):  # its prototypes have 14 to 16 points
        with refused(Malformed, "not_a_tree"):
            read_tree(encode_checkpoint({**header, "variables": [{**own, **wrong}]}, arrays))
    with refused(Malformed, "newer_format"):
        read_tree(encode_checkpoint({**header, "version": 2}, arrays))


def test_classes_of_one_kind_are_one_leaf() -> None:
    x, _ = rows()
    tree = grow([curve_variable("x", x)], np.zeros(45, np.int64), ["only"], Growth())
    assert tree.variable.tolist() == [LEAF]
    assert isinstance(tree.variables[0], CurveVariable)
    assert tree.predict([curve_variable("x", x)]).tolist() == [0] * 45

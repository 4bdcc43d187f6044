"""FunctionalTreeClassifier: what it takes, its file, its drawing."""

from __future__ import annotations

import pickle
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from sklearn.base import clone

from riata.base.arrays import F64, I64
from riata.estimators import FunctionalTreeClassifier
from tests.trees.curves import of_kinds

SVG = "{http://www.w3.org/2000/svg}"


def rows(each: int = 12, seed: int = 0) -> tuple[F64, I64]:
    x, y = of_kinds((0, 1, 2), each, np.random.default_rng(seed))
    return x[:, ::8], y


def test_matrices_lists_of_any_lengths_and_mappings_are_taken() -> None:
    x, y = rows()
    names = np.array(["cylinder", "bell", "funnel"])[y]
    new, truth = rows(20, 1)
    truth_names = np.array(["cylinder", "bell", "funnel"])[truth]
    matrix = FunctionalTreeClassifier(distance="euclid", restarts=10).fit(x, names)
    assert matrix.score(new, truth_names) > 0.7
    ragged = [one[: 14 + i % 3] for i, one in enumerate(x)]
    warped = FunctionalTreeClassifier(restarts=10, n_jobs=2).fit(ragged, names)
    assert warped.score([one[:15] for one in new], truth_names) > 0.5
    several = {"one": ragged, "two": np.stack([x, x[:, ::-1]], axis=2), "age": np.arange(36.0)}
    both = FunctionalTreeClassifier(restarts=5, output_code=True).fit(several, names)
    assert both.apply(several).shape == (36, 3)
    assert not hasattr(both, "predict_proba")
    np.testing.assert_allclose(warped.predict_proba(ragged).sum(axis=1), 1.0)


def test_one_row_is_classified_as_among_others() -> None:
    x, y = rows()
    tree = FunctionalTreeClassifier(restarts=5).fit(list(x), y)
    alone = [int(tree.predict([one])[0]) for one in x[:6]]
    assert alone == tree.predict(list(x[:6])).tolist()


def test_a_file_and_a_copy_predict_alike_and_a_clone_knows_nothing(tmp_path: Path) -> None:
    x, y = rows()
    tree = FunctionalTreeClassifier(restarts=5).fit(x, y)
    again = FunctionalTreeClassifier.from_file(tree.to_file(tmp_path / "t.tree"))
    copy = pickle.loads(pickle.dumps(tree))  # noqa: S301  our own bytes
    assert again.predict(x).tolist() == copy.predict(x).tolist() == tree.predict(x).tolist()
    assert again.classes_.tolist() == [0, 1, 2]
    assert not hasattr(clone(tree), "tree_")
    assert list(tmp_path.iterdir()) == [tmp_path / "t.tree"]
    even = FunctionalTreeClassifier(distance="euclid", restarts=5).fit(x, y)
    with pytest.raises(ValueError, match="expected 16"):  # the distance is that of the file
        FunctionalTreeClassifier.from_file(even.to_file(tmp_path / "t.tree")).predict([[1.0, 2.0]])
    (tmp_path / "t.tree").write_bytes(b"something else")
    with pytest.raises(ValueError, match="not a file of a tree"):
        FunctionalTreeClassifier.from_file(tmp_path / "t.tree")


def test_the_drawing_has_two_curves_for_each_split_and_every_leaf(tmp_path: Path) -> None:
    x, y = rows()
    tree = FunctionalTreeClassifier(restarts=5, prune=0.0).fit({"a<b": list(x)}, np.array(["<x>", "y", "z"])[y])
    drawing = ElementTree.parse(tree.draw(tmp_path / "t.svg")).getroot()
    inner = int((tree.tree_.variable >= 0).sum())
    assert len(list(drawing.iter(f"{SVG}polyline"))) == 2 * inner
    texts = [text.text for text in drawing.iter(f"{SVG}text")]
    assert {"<x>", "y", "z"} <= {str(text).partition(": ")[2] for text in texts}  # after the number of the leaf
    assert any("a<b, " in str(text) for text in texts)
    assert tree._repr_svg_() is not None


def test_what_cannot_be_taken_is_refused_by_name_and_row() -> None:
    x, y = rows()
    tree = FunctionalTreeClassifier(restarts=3).fit({"ecg": list(x)}, y)
    for given, said in (
        ({"ecg": [[1.0], []]}, "variable 'ecg', row 1: the curve is empty"),
        ({"ecg": [[1.0, np.nan]]}, "row 0: point 1 is not finite"),
        ({"ecg": [[[1.0, 2.0]]]}, "2 channels, expected 1"),
        ({"eeg": [[1.0]]}, "variable 'ecg' is missing"),
    ):
        with pytest.raises(ValueError, match=said):
            tree.predict(given)
    with pytest.raises(ValueError, match="use dtw"):
        FunctionalTreeClassifier(distance="euclid").fit([[1.0, 2.0], [1.0]], [0, 1])
    with pytest.raises(ValueError, match="prune"):
        FunctionalTreeClassifier(prune=1.0).fit(x, y)
    with pytest.raises(ValueError, match="distance"):
        FunctionalTreeClassifier(distance="cosine").fit(x, y)

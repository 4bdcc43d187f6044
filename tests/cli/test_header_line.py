"""A first line of data is told from names of columns, and --header names them."""

from __future__ import annotations

import pytest

from riata.base.errors import BadInput, Malformed
from riata.cli.csv_file import column_names, given_header
from tests.refused import refused

NONE: tuple[frozenset[str], ...] = (frozenset(),) * 20


@pytest.mark.parametrize(
    ("header", "names", "hidden"),
    [
        (["a", "b"], ["a", "b"], set()),
        ([" a ", "b"], ["a", "b"], set()),
        (["", "b"], ["(index)", "b"], {"(index)"}),
        (["id", "2019", "2020"], ["id", "2019", "2020"], set()),
        (["1"], ["1"], set()),
        (["null", "na"], ["null", "na"], set()),
    ],
)
def test_names_of_columns(header: list[str], names: list[str], hidden: set[str]) -> None:
    assert column_names(header, NONE[: len(header)], "f.csv") == (names, frozenset(hidden))


@pytest.mark.parametrize(
    "header",
    [
        ["0", "1", "1", "5", "0", "1382"],
        ["0", "alice", "alice"],
        ["1", "", "x"],
        ["5.1", "3.5", "setosa"],
        ["-1", "x"],
        ["0,5", "x"],
        ["1e5", "x"],
        ["1", "2"],
    ],
)
def test_a_first_line_of_data_is_refused_with_the_way_out(header: list[str]) -> None:
    with refused(Malformed, "bad_header", match="the first line looks like data; name the columns with --header"):
        column_names(header, NONE[: len(header)], "f.csv")


def test_a_number_that_is_among_the_cells_below_is_data() -> None:
    with pytest.raises(Malformed, match="looks like data"):
        column_names(["0", "alice"], [{"0", "1"}, {"bob"}], "f.csv")
    assert column_names(["2019", "alice"], [{"0", "1"}, {"bob"}], "f.csv")[0] == ["2019", "alice"]


@pytest.mark.parametrize(("header", "said"), [(["a", "a"], "two columns are called 'a'"), (["a", ""], "column 2 has no name")])
def test_names_that_are_wrong_are_told_as_such(header: list[str], said: str) -> None:
    with pytest.raises(Malformed, match=said):
        column_names(header, NONE[: len(header)], "f.csv")


def test_given_names_are_as_many_as_cells() -> None:
    assert given_header('label,"a,b",c', ["0", "1", "2"], "f.csv") == ["label", "a,b", "c"]
    with pytest.raises(BadInput, match="--header names 2 columns, but the first line has 3 cells"):
        given_header("label,a", ["0", "1", "2"], "f.csv")

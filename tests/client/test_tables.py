"""DataFrames, columns and flat dictionaries as rows of the clients: what is sent, in how many requests, and what is refused."""

from __future__ import annotations

import asyncio
import json
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import httpx
import numpy as np
import pytest

from riata.base.errors import BadInput
from riata.client import ApiRefused, AsyncRiata, MostlyRefused, Riata
from riata.wire.given import OtherLabels
from riata.wire.tables import plain
from tests.client.fake_http import answer, problem

COLUMNS = {"age": [41.5, None, 23.0], "country": ["de", "fr", None], "churned": [True, False, True]}
SENT = [
    {"features": {"age": 41.5, "country": "de"}, "label": 1},
    {"features": {"country": "fr"}, "label": 0},
    {"features": {"age": 23.0}, "label": 1},
]


class Service:
    """Keeps the rows of every request, and accepts those whose `i` is none of `refused`."""

    def __init__(self, refused: frozenset[int] = frozenset()) -> None:
        self.bodies: list[list[dict[str, Any]]] = []
        self.keys: list[str] = []
        self._refused = refused

    def __call__(self, request: httpx.Request) -> httpx.Response:
        rows = [json.loads(line) for line in request.content.splitlines()]
        self.bodies.append(rows)
        self.keys.append(request.headers.get("idempotency-key", ""))
        wrong = [
            {"index": index, "code": "bad_feature", "detail": "features.i: expected another"}
            for index, row in enumerate(rows)
            if row["features"].get("i") in self._refused
        ]
        if request.url.path.endswith("predict"):
            if wrong:
                return problem(422, "bad_rows", errors=wrong)
            found = [{"probability": len(row["features"]) / 8, "margin": 0.5} for row in rows]
            return httpx.Response(200, content="\n".join(map(json.dumps, found)))
        counts: dict[str, Any] = {
            "accepted": len(rows) - len(wrong),
            "duplicate": 0,
            "rejected": len(wrong),
            "seq": 7,
            "errors": wrong,
        }
        return problem(422, "nothing_accepted", **counts) if len(wrong) == len(rows) else answer(202, counts)

    def client(self) -> Riata:
        return Riata("http://riata", transport=httpx.MockTransport(self))


def tables() -> list[Any]:
    flat = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)]
    found: list[Any] = [COLUMNS, flat, {name: np.array(column, object) for name, column in COLUMNS.items()}]
    pandas, polars, pyarrow = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    typed = pandas.DataFrame(COLUMNS).convert_dtypes().astype({"country": "category"})
    return [*found, pandas.DataFrame(COLUMNS), typed, polars.DataFrame(COLUMNS), pyarrow.table(COLUMNS)]


@pytest.mark.parametrize("kind", range(7))
def test_every_table_is_the_same_rows(kind: int) -> None:
    service, table = Service(), tables()[kind]
    with service.client() as riata:
        assert riata.observe(table, label="churned").accepted == 3
        assert service.bodies == [SENT]
        riata.predict(table, label="churned", drop=["age"])
        assert service.bodies[1] == [{"features": {"country": "de"}}, {"features": {"country": "fr"}}, {"features": {}}]


def test_the_predictions_of_a_data_frame_are_a_column_of_it() -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    frame = pandas.DataFrame(COLUMNS, index=["a", "b", "c"])
    with Service().client() as riata:
        column = riata.predict(frame, label="churned")
        assert (column.name, column.to_dict()) == ("probability", {"a": 0.25, "b": 0.125, "c": 0.125})
        assert riata.predict(polars.DataFrame(COLUMNS), label="churned").to_list() == [0.25, 0.125, 0.125]
        assert riata.predict(frame, explain=True)[0]["margin"] == 0.5
        assert riata.predict({"age": 1})[0]["probability"] == 0.125


def test_values_mean_what_they_say() -> None:
    noon = datetime(1970, 1, 3, 12)
    assert [plain(value) for value in (np.float32(0.5), np.int64(3), np.bool_(True), Decimal("1.5"))] == [0.5, 3, True, 1.5]
    assert [plain(value) for value in (noon, np.datetime64(noon), date(1970, 1, 3), timedelta(hours=36))] == [2.5, 2.5, 2.0, 1.5]
    assert [plain(value) for value in (None, float("nan"), np.float64("nan"), np.datetime64("NaT"))] == [None] * 4
    assert plain(np.array(["a", "b"])) == ["a", "b"]


def test_many_rows_are_several_requests_and_count_as_one() -> None:
    service = Service(frozenset({10_001, 20_000}))
    with service.client() as riata:
        observed = riata.observe(({"features": {"i": i}, "label": 0} for i in range(20_001)), key="k")
        assert (observed.accepted, observed.rejected) == (19_999, 2)
        assert [error.index for error in observed.errors] == [10_001, 20_000]
        assert [len(body) for body in service.bodies] == [10_000, 10_000, 1]
        assert service.keys == ["k", "k-1", "k-2"]
        with pytest.raises(BadInput, match="atomic: these rows need several requests; one has at most 10000 rows"):
            riata.observe({"i": list(range(10_001)), "label": [0] * 10_001}, atomic=True)
        with pytest.raises(ApiRefused, match=r"row 10001: features\.i: expected another"):
            riata.predict({"i": list(range(10_100))})
        assert len(riata.predict({"i": [1] * 10_001})) == 10_001
        service.bodies.clear()
        riata.observe([{"ecg": [0.5] * 4096, "label": 0}] * 50)  # 204,800 points
        assert [len(body) for body in service.bodies] == [48, 2]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ({"a": [1.0, float("inf")], "label": [1, 0]}, "row 1, column 'a': inf is not a finite number"),
        ({"a": [1, {"b": {}}], "label": [1, 0]}, "row 1, column 'a': a value of type dict is not"),
        ({"a": [1, 2], "label": [1, None]}, "row 1, column 'label': there is no label"),
        ({"a": [1], "label": ["stay"]}, "row 0, column 'label': the label 'stay' is neither a number nor yes or no"),
        ({"a": [1, 2], "label": [1]}, "the columns have different lengths"),
        ({"a": [1], "lable": [1]}, "no column 'label'; did you mean 'lable'?"),
        ([{"a": 1, "label": 1}, {"a": 2}], "row 1, column 'label': there is no label"),
        ([{"features": {"a": float("inf")}, "label": 1}], "row 0, column 'a': inf is not a finite number"),
        (["a"], "row 0: expected a dictionary, not str"),
    ],
)
def test_a_refusal_names_the_row_and_the_column(rows: Any, said: str) -> None:
    service = Service()
    with service.client() as riata, pytest.raises(BadInput) as refused:
        riata.observe(rows, atomic=True)
    assert said in str(refused.value)
    assert service.bodies == []


def test_a_row_that_cannot_be_sent_is_an_error_with_row_and_column_and_the_others_are_learnt() -> None:
    service = Service(frozenset({0}))
    with service.client() as riata, pytest.raises(MostlyRefused, match="4 of 5 rows were refused, 1 accepted") as mostly:
        riata.observe({"i": [0.0, 1.0, float("inf"), 3.0, 4.0], "label": [1, 0, 1, None, "stay"]})
    told = mostly.value.observed
    assert (told.accepted, told.rejected) == (1, 4)
    assert [(error.index, error.code) for error in told.errors] == [
        (0, "bad_feature"), (2, "not_finite"), (3, "missing_label"), (4, "bad_value"),
    ]  # fmt: skip
    assert told.errors[1].detail == "column 'i': inf is not a finite number; leave it out, or clip it"
    assert told.codes == {"not_finite": 1, "missing_label": 1, "bad_value": 1}
    with service.client() as riata, pytest.raises(BadInput, match="row 0, column 'i': inf is not"):
        riata.observe({"i": [float("inf")], "label": [1]})


def test_rows_with_a_source_have_ids_by_their_values() -> None:
    def ids(table: Any, source: str = "churn") -> list[bytes]:
        sent: list[bytes] = []

        def service(request: httpx.Request) -> httpx.Response:
            count = int(request.url.params["ids"])
            sent.extend(request.content[-16 * i : len(request.content) - 16 * (i - 1)] for i in range(count, 0, -1))
            return answer(202, {"accepted": count, "duplicate": 0, "rejected": 0, "seq": 1, "errors": []})

        with Riata("http://riata", transport=httpx.MockTransport(service)) as riata:
            riata.observe(table, label="churned", source=source)
        return sent

    assert all(ids(table) == ids(COLUMNS) for table in tables())
    assert len({*ids(COLUMNS), *ids(COLUMNS, "other")}) == 6
    columns: dict[str, Any] = dict(COLUMNS)
    twice = ids({name: column * 2 for name, column in columns.items()})
    assert (twice[:3], len({*twice})) == (ids(COLUMNS), 6)
    backwards = ids({name: column[::-1] for name, column in reversed(columns.items())})
    assert backwards == ids(COLUMNS)[::-1]


def test_the_asyncio_client_sends_the_same() -> None:
    async def both(service: Service) -> Any:
        async with AsyncRiata("http://riata", transport=httpx.MockTransport(service)) as riata:
            assert (await riata.observe(COLUMNS, label="churned")).accepted == 3
            return await riata.predict(COLUMNS, label="churned")

    service = Service()
    assert [row["probability"] for row in asyncio.run(both(service))] == [0.25, 0.125, 0.125]
    assert service.bodies[0] == SENT


def test_a_sorted_table_of_another_setting_is_refused_before_its_first_request() -> None:
    sent: list[httpx.Request] = []

    def service(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        if request.method == "GET":
            return answer(200, {"name": "default", "config": {"labels": "0/1"}})
        rows = request.content.count(b"\n")
        return answer(202, {"accepted": rows, "duplicate": 0, "rejected": 0, "seq": 1, "errors": []})

    signs = {"a": list(range(12_000)), "label": [1] * 11_000 + [-1] * 1000}
    with Riata("http://riata", transport=httpx.MockTransport(service)) as riata:
        for rows in (signs, [{"a": a, "label": label} for a, label in zip(*signs.values(), strict=True)]):
            with pytest.raises(OtherLabels, match="the labels are -1 and 1"):
                riata.observe(rows)
        assert {request.method for request in sent} == {"GET"}
        assert riata.observe({**signs, "label": [1, 0] * 6000}).accepted == 12_000
        posts = [request for request in sent if request.method == "POST"]
        assert [request.url.params["labels"] for request in posts] == ["by_row", "by_row"]
        sent.clear()
        riata.observe({"a": [1, 2], "label": [1, 0]})
        assert [request.method for request in sent] == ["POST"]  # the service judges what fits into one request
        assert "labels" not in sent[0].url.params


def test_a_key_that_may_not_read_the_model_has_each_request_judged() -> None:
    posts: list[httpx.Request] = []

    def service(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return problem(403, "wrong_scope")
        posts.append(request)
        return answer(202, {"accepted": 1, "duplicate": 0, "rejected": 0, "seq": 1, "errors": []})

    with Riata("http://riata", transport=httpx.MockTransport(service)) as riata:
        riata.observe({"a": [0] * 12_000, "label": [1, 0] * 6000})
    assert len(posts) == 2
    assert all("labels" not in request.url.params for request in posts)


@pytest.mark.parametrize(("rejected", "accepted", "raises"), [(3, 2, True), (2, 2, False), (3388, 1612, True)])
def test_the_client_raises_when_most_rows_are_refused(rejected: int, accepted: int, raises: bool) -> None:
    counts = {"accepted": accepted, "duplicate": 0, "rejected": rejected, "seq": 1}
    errors = [{"index": 1, "code": "bad_label", "detail": "label: no"}]

    def service(_request: httpx.Request) -> httpx.Response:
        return answer(202, {**counts, "errors": errors})

    with Riata("http://riata", transport=httpx.MockTransport(service)) as riata:
        for rows in (b"1 | a", {"a": [0] * (rejected + accepted), "label": [0] * (rejected + accepted)}):
            if not raises:
                assert riata.observe(rows).rejected == rejected
                continue
            with pytest.raises(MostlyRefused, match=f"{rejected} of {rejected + accepted} rows were refused") as mostly:
                riata.observe(rows)
            assert (mostly.value.observed.accepted, mostly.value.code) == (accepted, "mostly_refused")

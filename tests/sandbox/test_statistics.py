"""Answers of the statistics endpoints against the truth: docs/service.md, endpoints 5 to 8."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slashtag.sandbox import Arrival, Behaviour, Sandbox, TrueCounts
from slashtag.sandbox.routes import Service

PLACES = 5
offsets = st.integers(-12 * 4, 14 * 4).map(
    lambda quarters: f"{'-' if quarters < 0 else '+'}{abs(quarters) // 4:02d}:{abs(quarters) % 4 * 15:02d}"
)
days = st.dates(date(2022, 12, 25), date(2025, 1, 5))
selections = st.one_of(
    st.just({"tag": "newsletter"}),
    st.tuples(st.integers(0, 99), st.integers(1, 100)).map(lambda cut: {"keys": slice(*cut)}),
)


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with Sandbox(urls=130, clicks=2_500, tags=5, since="2023-01-01", until="2024-12-31T23:59:59") as box:
        yield box


class Question:
    """What selects clicks, as a query and for the truth."""

    def __init__(self, box: Sandbox, selection: dict[str, Any], offset: str) -> None:
        self.box, self.truth = box, selection | {"timezone": offset}
        self.query = {"timezone": offset} | selection
        if (cut := self.query.pop("keys", None)) is not None:
            keys = list(dict.fromkeys(url.slashtag for url in box.truth.urls()))[cut] or ["nobody"]
            self.truth["keys"], self.query["url_keys"] = keys, ",".join(keys)

    def check(self, path: str, truth: TrueCounts, **query: str) -> Any:
        """Ask the service itself, compare each member with the truth, and return the data."""
        service = Service(self.box.store, Behaviour(places=PLACES), "k", "s")
        arrival = Arrival("GET", f"/api/v1/{path}", self.query | query)
        data: Any = service.answer(arrival, {"apikey": "k", "apisecret": "s"}).data
        for name, found in data.items():
            true = {} if name == "languages" else getattr(truth, name)
            if name == "clicks":
                assert found == {str(day): n for day, n in true.items() if n}
            elif name == "clicks_breakdown":
                assert found == {str(y): {str(m): n for m, n in of.items()} for y, of in true.items()}
            elif name in ("state", "city", "postalcode"):
                *named, (last, other) = [(label, int(n)) for label, n in found.items()]
                assert (last, other) == ("Other", truth.total_clicks - sum(n for _, n in named))
                assert [n for _, n in named] == sorted(true.values(), reverse=True)[:PLACES]
                assert all(true[label] == n for label, n in named)
            else:
                assert (found if isinstance(found, int) else {k: int(n) for k, n in found.items()}) == true
        return data


@given(selections, offsets, days, st.integers(0, 31))
def test_a_range_of_whole_days_is_counted_as_in_the_log(
    box: Sandbox, selection: dict[str, Any], offset: str, start: date, more: int
) -> None:
    asked, end = Question(box, selection, offset), start + timedelta(days=more)
    span = f"{start}T00:00:00{offset},{end}T23:59:59{offset}"
    data = asked.check("stats", box.truth.range(start, end, **asked.truth), date_range=span)
    assert ("clicks" in data) == (more > 0)
    if not more:
        asked.check("stats", box.truth.range(start, end, **asked.truth), date=f"{start}T12:00:00{offset}")


@given(
    selections,
    offsets,
    st.datetimes(datetime(2023, 1, 1), datetime(2024, 12, 1)),
    st.integers(0, 32 * 86_400),
)
def test_a_range_of_instants_holds_both_ends_and_is_labelled_in_the_zone(
    box: Sandbox, selection: dict[str, Any], offset: str, naive: datetime, seconds: int
) -> None:
    asked, start = Question(box, selection, offset), naive.replace(microsecond=0, tzinfo=UTC)
    end = start + timedelta(seconds=seconds)
    truth = box.truth.range(start, end, **asked.truth)
    asked.check("stats", truth, date_range=f"{start.isoformat()},{end.isoformat()}")


@given(selections, offsets, st.integers(2022, 2025))
def test_a_year_and_all_time_are_counted_as_in_the_log(
    box: Sandbox, selection: dict[str, Any], offset: str, year: int
) -> None:
    asked = Question(box, selection, offset)
    asked.check("stats/yearly", box.truth.year(year, **asked.truth), year=str(year))
    asked.check("stats/alltime", box.truth.alltime(**asked.truth))


@given(selections, offsets, days, st.integers(0, 500), st.sampled_from(["US", "DE", "JP", "ZZ"]))
def test_a_country_is_counted_as_in_the_log_and_cut_into_other(
    box: Sandbox, selection: dict[str, Any], offset: str, start: date, more: int, code: str
) -> None:
    asked, end = Question(box, selection, offset), start + timedelta(days=more)
    truth = box.truth.range(start, end, country=code, **asked.truth)
    span = {"start_date": str(start), "end_date": str(end)}
    asked.check("stats/country/geo", truth, iso_code=code, **span)

"""Answers of the statistics endpoints against the truth: docs/service.md, endpoints 5 to 8."""

from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slashtag.sandbox import Arrival, Behaviour, Sandbox
from slashtag.sandbox.routes import Service

from .serve import calling, serving

MAPS = ("device", "browser", "platform", "country", "referrer")


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with Sandbox(urls=130, clicks=2_500, tags=5, since="2023-01-01", until="2024-12-31T23:59:59") as box:
        yield box


def ask(box: Sandbox, path: str, **query: object) -> Any:
    """Ask the service itself, without a socket."""
    service = Service(box.store, Behaviour(), box.apikey, box.apisecret)
    texts = {name: str(value) for name, value in query.items()}
    headers = {"apikey": box.apikey, "apisecret": box.apisecret}
    envelope = service.answer(Arrival("GET", f"/api/v1/{path}", texts), headers)
    assert (envelope.status, envelope.message) == (200, "ok")
    return envelope.data


def counts(entries: Mapping[str, str | int]) -> dict[str, int]:
    return {label: int(count) for label, count in entries.items()}


def popular(box: Sandbox, most: int = 100) -> list[str]:
    urls = [url for url in box.truth.urls() if "," not in url.slashtag]
    return list(dict.fromkeys(url.slashtag for url in sorted(urls, key=lambda url: -url.hits)))[:most]


def offset_text(minutes: int) -> str:
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"


offsets = st.integers(-12 * 4, 14 * 4).map(lambda quarters: offset_text(quarters * 15))
days = st.dates(date(2022, 12, 25), date(2025, 1, 5))


@given(days, st.integers(0, 31), offsets, st.integers(0, 99))
def test_a_range_of_whole_days_is_counted_as_in_the_log(
    box: Sandbox, start: date, more: int, offset: str, first: int
) -> None:
    end = start + timedelta(days=more)
    keys = popular(box)[first:]
    data = ask(
        box,
        "stats",
        url_keys=",".join(keys),
        timezone=offset,
        date_range=f"{start}T00:00:00{offset},{end}T23:59:59{offset}",
    )
    truth = box.truth.range(start, end, keys, timezone=offset)
    assert data["total_clicks"] == truth.total_clicks
    for name in MAPS:
        assert counts(data[name]) == getattr(truth, name)
    if more:
        found = {date.fromisoformat(day): count for day, count in data["clicks"].items()}
        assert found == {day: count for day, count in truth.clicks.items() if count}
    else:
        assert "clicks" not in data


@given(st.datetimes(datetime(2023, 1, 1), datetime(2024, 12, 1)), st.integers(0, 32 * 86_400), offsets)
def test_a_range_of_instants_holds_both_ends_and_is_labelled_in_the_zone(
    box: Sandbox, naive: datetime, seconds: int, offset: str
) -> None:
    start = naive.replace(microsecond=0, tzinfo=UTC)
    end = start + timedelta(seconds=seconds)
    data = ask(
        box, "stats", tag="newsletter", timezone=offset, date_range=f"{start.isoformat()},{end.isoformat()}"
    )
    truth = box.truth.range(start, end, tag="newsletter", timezone=offset)
    assert data["total_clicks"] == truth.total_clicks
    found = {date.fromisoformat(day): count for day, count in data.get("clicks", {}).items()}
    if len(truth.clicks) > 1:
        assert found == {day: count for day, count in truth.clicks.items() if count}


@given(st.none() | st.integers(2022, 2025), offsets, st.integers(0, 99))
def test_a_year_and_all_time_are_counted_as_in_the_log(
    box: Sandbox, year: int | None, offset: str, first: int
) -> None:
    keys = ",".join(popular(box)[first:])
    if year is None:
        data = ask(box, "stats/alltime", url_keys=keys, timezone=offset)
        truth = box.truth.alltime(keys.split(","), timezone=offset)
    else:
        data = ask(box, "stats/yearly", url_keys=keys, year=year, timezone=offset)
        truth = box.truth.year(year, keys.split(","), timezone=offset)
    assert data["languages"] == {}
    for name in ("clicks_total", "clicks_unique", "clicks_repeated"):
        assert data[name] == getattr(truth, name)
    breakdown = {
        int(year): {int(m): n for m, n in months.items()} for year, months in data["clicks_breakdown"].items()
    }
    assert breakdown == truth.clicks_breakdown
    for name in (*MAPS, "timezone"):
        assert counts(data[name]) == getattr(truth, name)


@given(days, st.integers(0, 500), offsets, st.sampled_from(["US", "de", "JP", "zz"]))
def test_a_country_is_counted_as_in_the_log_and_cut_into_other(
    box: Sandbox, start: date, more: int, offset: str, code: str
) -> None:
    end = start + timedelta(days=more)
    keys = popular(box)
    query = {"url_keys": ",".join(keys), "iso_code": code, "timezone": offset}
    data = ask(box, "stats/country/geo", **query, start_date=start, end_date=end)
    truth = box.truth.country(code, start, end, keys, timezone=offset)
    assert data.keys() == {"state", "city", "postalcode"}
    for name, entries in data.items():
        whole: dict[str, int] = getattr(truth, name)
        *named, other = entries.items()
        assert other[0] == "Other"
        assert isinstance(other[1], int)
        assert len(named) == min(50, len(whole))
        assert all(int(count) == whole[label] for label, count in named)
        assert other[1] == sum(whole.values()) - sum(int(count) for _, count in named)
        if len(whole) > 50:
            assert min(int(count) for _, count in named) >= sorted(whole.values(), reverse=True)[50]


async def test_counts_are_texts_but_for_direct_other_and_days_and_months(box: Sandbox) -> None:
    async with calling(box) as call:
        keys = ",".join(popular(box))
        days = "2024-05-01T00:00:00+00:00,2024-06-01T23:59:59+00:00"
        data = await call.range(url_keys=keys, date_range=days)
        assert isinstance(data["total_clicks"], int)
        assert {type(n) for n in data["clicks"].values()} == {int}
        assert isinstance(data["referrer"].pop("Direct"), int)
        for name in MAPS:
            assert {type(n) for n in data[name].values()} == {str}
        data = (await call.get("stats/alltime", url_keys=keys)).data
        assert {type(n) for months in data["clicks_breakdown"].values() for n in months.values()} == {int}
        assert {type(n) for n in data["timezone"].values()} == {str}
        assert isinstance(data["referrer"]["Direct"], int)


async def test_a_date_is_its_whole_day_in_its_own_offset() -> None:
    async with serving() as call:
        call.box.add_url("a")
        for when in (
            "2024-01-01T21:59:59",
            "2024-01-01T22:00:00",
            "2024-01-02T21:59:59",
            "2024-01-02T22:00:00",
        ):
            call.box.add_click("a", when)
        assert (await call.range(url_keys="a", date="2024-01-02T12:34:56+02:00"))["total_clicks"] == 2

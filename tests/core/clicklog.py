"""A log of clicks, and what the service would count in it: the truth that sums are held against."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import msgspec
from hypothesis import strategies as st

from slashtag._core.call import Call
from slashtag._core.response import parse

ZONES = [
    "America/New_York",
    "America/Santiago",  # transitions at midnight
    "America/St_Johns",  # before November 2011 at 00:01
    "Africa/Cairo",  # at midnight
    "Africa/Casablanca",  # around Ramadan
    "Asia/Kolkata",
    "Australia/Lord_Howe",  # by half an hour
    "Europe/Dublin",
    "Pacific/Apia",  # had no 2011-12-30
]
#: Dates on which those zones change their offset, and some on which they do not.
TURNS = [
    date(2010, 3, 14),
    date(2010, 11, 7),
    date(2011, 12, 30),
    date(2024, 3, 10),
    date(2024, 3, 31),
    date(2024, 4, 7),
    date(2024, 4, 14),
    date(2024, 4, 26),
    date(2024, 9, 8),
    date(2024, 10, 6),
    date(2024, 10, 27),
    date(2024, 11, 1),
    date(2024, 11, 3),
]
KEYS = ["a", "b", "ä/ö", "c d", "Other"]
DEVICES = ["Desktop", "Tablet", "Mobile"]
COUNTRIES = ["US", "DE", "unknown."]
STATES = ["Ohio", "Utah", "Iowa", "Maine"]


class Click(NamedTuple):
    """One click: when, on which slashtag, from where, by whom."""

    at: datetime
    key: str
    device: str
    country: str
    state: str
    visitor: int


def offsets() -> st.SearchStrategy[timezone]:
    """Draw fixed offsets of whole minutes."""
    return st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


def zones() -> st.SearchStrategy[Any]:
    """Draw zones, with and without daylight saving."""
    return st.sampled_from(ZONES).map(ZoneInfo) | offsets()


def near_turns(days: int = 3) -> st.SearchStrategy[date]:
    """Draw dates close to a transition."""
    return st.sampled_from(TURNS).flatmap(lambda turn: near(turn, days))


def near(turn: date, days: int) -> st.SearchStrategy[date]:
    """Draw dates close to a date, most of them very close."""
    return st.builds(lambda n: turn + timedelta(days=n), st.integers(-1, 1) | st.integers(-days, days))


def instants(dates: st.SearchStrategy[date]) -> st.SearchStrategy[datetime]:
    """Draw instants of those dates, in UTC, among them many at the edge of an hour."""
    return st.builds(_instant, dates, st.integers(0, 86_399) | st.sampled_from(EDGES))


EDGES = [
    second % 86_400 for hour in range(24) for second in (hour * 3_600 - 1, hour * 3_600, hour * 3_600 + 60)
]


def _instant(day: date, second: int) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(seconds=second)


def scenes(days: int = 40) -> st.SearchStrategy[tuple[list[Click], date]]:
    """Draw a log of clicks and a date, both around the same transition."""
    return st.sampled_from(TURNS).flatmap(lambda turn: st.tuples(logs(near(turn, days)), near(turn, days)))


def logs(dates: st.SearchStrategy[date], most: int = 30) -> st.SearchStrategy[list[Click]]:
    """Draw logs of clicks."""
    return st.lists(st.builds(_click, instants(dates), st.integers(0, 5_000)), max_size=most)


def _click(at: datetime, drawn: int) -> Click:
    # One number for all that a click has, since hypothesis takes its time for each.
    traits = list[str]()
    for choice in (KEYS, DEVICES, COUNTRIES, STATES):
        drawn, at_choice = divmod(drawn, len(choice))
        traits.append(choice[at_choice])
    return Click(at, *traits, visitor=drawn % 6)


class Service:
    """Answer statistics calls by counting in a log, in the shapes of the document.

    Answers for fewer days than `least_days` come without `clicks`.
    """

    def __init__(
        self,
        log: list[Click],
        *,
        exclusive: bool = False,
        least_days: int = 1,
        named_states: int = 99,
    ) -> None:
        self._log = dict[str, list[Click]]()
        for click in log:
            self._log.setdefault(click.key, []).append(click)
        self._exclusive = exclusive
        self._least_days = least_days
        self._named_states = named_states
        self.asked = list[Call[Any]]()

    def __call__(self, call: Call[Any]) -> Any:
        """Return what a call gives, after a journey through JSON."""
        self.asked.append(call)
        body = msgspec.json.encode({"status": 200, "message": "ok", "data": self._data(call)})
        return parse(call, 200, {}, body)

    def _data(self, call: Call[Any]) -> dict[str, Any]:
        params = dict(call.params)
        log = [click for key in sorted({*(call.keys or KEYS)}) for click in self._log.get(key, ())]
        zone = datetime.strptime(params.get("timezone", "+00:00"), "%z").tzinfo
        assert zone is not None
        if call.path == "stats":
            return self._range(log, params, zone)
        if call.path == "stats/country/geo":
            return self._geo(log, params, zone)
        if "year" in params:
            log = [click for click in log if f"{click.at.astimezone(zone).year:04d}" == params["year"]]
        return self._period(log, zone)

    def _range(self, log: list[Click], params: dict[str, str], zone: Any) -> dict[str, Any]:
        start, end = map(datetime.fromisoformat, params["date_range"].split(","))
        if self._exclusive:
            end -= timedelta(seconds=1)
        assert start.utcoffset() == end.utcoffset() == zone.utcoffset(None)
        assert end - start < timedelta(days=32)
        log = [click for click in log if start <= click.at <= end]
        days = {str(start.date() + timedelta(days=n)): 0 for n in range((end.date() - start.date()).days + 1)}
        for click in log:
            days[str(click.at.astimezone(zone).date())] += 1
        data: dict[str, Any] = {
            "total_clicks": len(log),
            "device": self._map(click.device for click in log),
            "browser": {"unknown.": len(log)},
            "platform": {"unknown.": str(len(log))},
            "country": self._map(click.country for click in log),
            "referrer": {"Direct": len(log)},
        }
        if len(days) >= self._least_days:
            data["clicks"] = days
        return data

    def _period(self, log: list[Click], zone: Any) -> dict[str, Any]:
        unique = len({click.visitor for click in log})
        months = dict[str, dict[str, int]]()
        for click in log:
            at = click.at.astimezone(zone)
            year = months.setdefault(str(at.year), {})
            year[str(at.month)] = year.get(str(at.month), 0) + 1
        return {
            "clicks_total": len(log),
            "clicks_unique": unique,
            "clicks_repeated": len(log) - unique,
            "clicks_breakdown": months or [],
            "device": self._map(click.device for click in log),
            "country": self._map(click.country for click in log),
            "languages": {},
            **{name: {"-": len(log)} for name in ("browser", "platform", "referrer", "timezone")},
        }

    def _geo(self, log: list[Click], params: dict[str, str], zone: Any) -> dict[str, Any]:
        first, last = params["start_date"], params["end_date"]
        log = [
            click
            for click in log
            if click.country == params["iso_code"] and first <= str(click.at.astimezone(zone).date()) <= last
        ]
        ranked = Counter(click.state for click in log).most_common()
        named = {state: str(n) for state, n in ranked[: self._named_states]}
        rest = sum(n for _, n in ranked[self._named_states :])
        return {
            "state": {**named, "Other": rest},
            "city": {"Other": len(log)},
            "postalcode": {"Other": len(log)},
        }

    def _map(self, labels: Iterable[str]) -> Any:
        counts = Counter(labels)
        # A label without clicks may be told, and an empty map may be told as an array.
        return {label: str(n) for label, n in (counts | Counter({"Bot": 0})).items()} or []

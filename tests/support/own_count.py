"""Random questions to `stats` and `top`, and what is right: counted from the click log, by plain loops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

from slashtag.sandbox import Sandbox
from slashtag.sandbox.store import LABELS

DAY = timedelta(days=1)
ZONES = ("+00:00", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe")
UTC_OFFSETS = {"+00:00": UTC}
LABELLED = ("country", "device", "browser", "platform", "referrer")
BY_TIME = ("day", "week", "month", "weekday")
#: By what `top` sorts links, of their clicks and those before.
RANKS: dict[str, Callable[[int, int], int]] = {
    "clicks": lambda now, before: now,
    "growth": lambda now, before: now - before,
    "decline": lambda now, before: before - now,
}
#: Spans that end today, and how many days they have.
SO_FAR = {"30d": 30, "4w": 28, "7d": 7}


@dataclass(frozen=True)
class Click:
    """A click of the log: its link's slashtag and tag, when it was, its labels."""

    slashtag: str
    tag: str
    at: datetime
    labels: dict[str, str]


def read_log(box: Sandbox) -> list[Click]:
    """Return all clicks of a sandbox, the tag "no tag" for links without one."""
    store = box.store
    tags = {tag.id: tag.name for tag in box.truth.tags()}
    links = {link.id: (link.slashtag, tags.get(link.tag_id or 0, "no tag")) for link in box.truth.urls()}
    return [
        Click(
            *links[link],
            datetime.fromtimestamp(at, UTC),
            {name: store.labels[id] for name, id in zip(LABELS, ids, strict=True)},
        )
        for link, at, _, *ids in store.log()
    ]


@dataclass(frozen=True)
class Question:
    """A question to `stats`, or with `top` to that, asked at a time."""

    span: str
    by: str
    zone: str
    compare: str
    select: tuple[str, str]
    now: datetime
    top: str = ""

    @classmethod
    def draw(cls, random: Random, box: Sandbox) -> Question:
        """Return a random question about an account."""
        now = datetime(
            2024, random.randint(3, 11), random.randint(1, 28), random.randint(0, 23), 17, tzinfo=UTC
        )
        start = date(2024, 1, 1) + random.randint(0, 40) * DAY
        month = f"2024-{random.randint(1, now.month):02d}"
        spans = [
            month,
            f"2024-q{random.randint(1, (now.month + 2) // 3)}",
            *SO_FAR,
            "last-month",
            "this-month",
            "2023",
        ]
        spans += [f"{start}..{start + random.randint(0, 45) * DAY}"] * 3
        keys = random.sample([url.slashtag for url in box.truth.urls()], 5)
        tag = random.choice(box.truth.tags()).name
        selections = [("", ""), ("", ""), ("--keys", ",".join(keys)), ("--tag", tag), ("--untagged", "")]
        labels = [*LABELLED, *BY_TIME, *BY_TIME, "tag"]
        pairs = [f"tag,{random.choice(labels[:-1])}"] * 3
        return cls(
            span=random.choice(spans),
            by=random.choice([*labels, *pairs]),
            zone=random.choice(ZONES),
            compare=random.choice(["", "previous", "last-year"]),
            select=random.choice(selections),
            now=now,
            top=random.choice(["", "", "", *RANKS]),
        )

    @property
    def arguments(self) -> list[str]:
        """The words of the command."""
        select = [word for word in self.select if word]
        asked = ["top", self.span, "--by", self.top, "--limit", "9"] if self.top else ["stats", self.span]
        asked += [] if self.top else ["--by", self.by]
        compare = ["--compare", self.compare] if self.compare else []
        return [*asked, *compare, *select, "--timezone", self.zone, "--format", "jsonl"]

    # -- which days

    @property
    def _zone(self) -> Any:
        return UTC_OFFSETS.get(self.zone) or ZoneInfo(self.zone)

    @property
    def _days(self) -> tuple[date, date]:
        """First and last day of the whole span."""
        today = self.now.astimezone(self._zone).date()
        if ".." in self.span:
            first, last = map(date.fromisoformat, self.span.split(".."))
            return first, last
        if self.span in SO_FAR:
            return today - (SO_FAR[self.span] - 1) * DAY, today
        if self.span == "2023":
            return date(2023, 1, 1), date(2023, 12, 31)
        if "q" in self.span:
            month = 3 * int(self.span[-1]) - 2
            return date(2024, month, 1), _last(date(2024, month + 2, 1))
        first = today.replace(day=1)
        if self.span == "last-month":
            first = (first - DAY).replace(day=1)
        elif self.span != "this-month":
            first = date.fromisoformat(f"{self.span}-01")
        return first, _last(first)

    def _spans(self) -> tuple[tuple[date, datetime], tuple[date, datetime]]:
        """First day and last instant of the span, and of the one it is compared with."""
        first, last = self._days
        is_months = first.day == 1 and last == _last(last)
        months = 12 * (last.year - first.year) + last.month - first.month + 1
        if ".." in self.compare:
            earlier, earlier_last = map(date.fromisoformat, self.compare.split(".."))
        elif is_months:
            back = max(12, months) if self.compare == "last-year" else months
            earlier = _month(first, -back)
            earlier_last = _last(_month(earlier, months - 1))
        else:
            length = (last - first).days + 1
            back = max(52, -(-length // 7)) * 7 if self.compare == "last-year" else length
            earlier, earlier_last = first - back * DAY, last - back * DAY
        end, end_before = self._end(last), self._end(earlier_last)
        now = self.now.astimezone(self._zone)
        if last >= now.date() >= first:
            # As much of the other span: the same time of day, as many days later.
            same = datetime.combine(earlier + (now.date() - first), now.time(), self._zone)
            end, end_before = now, min(same, end_before, key=lambda at: at.replace(tzinfo=None))
        return (first, end), (earlier, end_before)

    def _end(self, day: date) -> datetime:
        return datetime(day.year, day.month, day.day, 23, 59, 59, tzinfo=self._zone)

    # -- what is right

    def _clicks(self, log: list[Click], first: date, end: datetime) -> list[tuple[str, Click]]:
        """Return the selected clicks of a span, each with its day."""
        option, value = self.select
        found = []
        for click in log:
            local = click.at.astimezone(self._zone)
            if first <= local.date() and click.at <= end.astimezone(UTC):
                is_wanted = {
                    "": True,
                    "--keys": click.slashtag in value.split(","),
                    "--tag": click.tag == value,
                    "--untagged": click.tag == "no tag",
                }[option]
                found += [(str(local.date()), click)] * is_wanted
        return found

    def _label(self, name: str, day: str, click: Click) -> str:
        if name in ("tag", "link"):
            return click.tag if name == "tag" else click.slashtag
        return click.labels[name] if name in LABELLED else _unit(name, date.fromisoformat(day))

    def _count(self, log: list[Click], span: tuple[date, datetime], names: list[str]) -> Counter[Any]:
        found = self._clicks(log, *span)
        return Counter(tuple(self._label(name, *each) for name in names) for each in found)

    def _check_top(self, rows: list[dict[str, Any]], log: list[Click]) -> None:
        now, before = (self._count(log, span, ["link"]) for span in self._spans())
        right = [(RANKS[self.top](now[key], before[key]), now[key], before[key]) for key in {**now, **before}]
        clicks = [(row["clicks"], row["clicks_before"]) for row in rows]
        found = [(RANKS[self.top](*each), *each) for each in clicks]
        assert [rank for rank, *_ in found] == sorted((rank for rank, *_ in right if rank > 0), reverse=True)[
            :9
        ]
        assert {*found} <= {*right}

    def check(self, rows: list[dict[str, Any]], log: list[Click]) -> None:
        """Assert that the rows of an answer are right.

        A row by time names the days that it is compared with: which ones is a law of tests/test_counts.py.
        Each day is named once, and each month where both spans begin on the same day of one.
        """
        if self.top:
            self._check_top(rows, log)
            return
        names, (span, span_before) = self.by.split(","), self._spans()
        unit = names[-1]
        is_named = unit == "day" or (unit == "month" and span[0].day == span_before[0].day)
        compared = names[:-1] if unit in ("week", "month") and not is_named else names
        clicks, before = Counter[Any](), Counter[Any]()
        for row in rows:
            clicks[tuple(row[name] for name in names)] += row["clicks"]
            if self.compare:
                key = tuple(row["compared_with" if is_named and name == unit else name] for name in compared)
                assert not is_named or key not in before or key[-1] is None
                before[key] += row["clicks_before"] or 0
                assert row["compared_with"] or not row["clicks_before"]
        assert +clicks == self._count(log, span, names)
        assert +before == (self._count(log, span_before, compared) if self.compare else Counter())


def _month(first: date, count: int) -> date:
    number = 12 * first.year + first.month - 1 + count
    return date(number // 12, number % 12 + 1, first.day)


def _last(day: date) -> date:
    return _month(day.replace(day=1), 1) - DAY


def _unit(name: str, day: date) -> str:
    names = {
        "day": str(day),
        "week": str(day - day.weekday() * DAY),
        "month": str(day)[:7],
        "weekday": f"{day:%A}",
    }
    return names[name]

"""Random questions to `stats` and `top`, and what is right: counted from the click log, by plain loops."""

from __future__ import annotations

from collections import Counter
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
            top=random.choice(["", "", "", "clicks", "growth", "decline"]),
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
        if is_months:
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
        if name == "tag":
            return click.tag
        return click.labels[name] if name in LABELLED else _unit(name, date.fromisoformat(day))

    def expected(self, log: list[Click]) -> dict[tuple[str | None, ...], tuple[int, int | None]]:
        """Return for each row of `stats` its labels, clicks and clicks before; without rows of two zeros."""
        (first, end), (earlier, end_before) = self._spans()
        now, before = self._clicks(log, first, end), self._clicks(log, earlier, end_before)
        *group, name = self.by.split(",")
        count = Counter((*(self._label(of, *each) for of in group), self._label(name, *each)) for each in now)
        found: dict[tuple[str | None, ...], tuple[int, int | None]] = {}
        if not self.compare:
            return {labels: (n, None) for labels, n in count.items()}
        if name not in ("day", "week", "month"):
            others = Counter(
                (*(self._label(of, *each) for of in group), self._label(name, *each)) for each in before
            )
            return {labels: (count[labels], others[labels]) for labels in {**count, **others}}
        last, last_before = end.date(), end_before.date()
        is_cut, is_cut_before = self._is_cut(end), self._is_cut(end_before)
        place = (first - earlier).days
        length = min(last - first, last_before - earlier).days + 1
        apart = (
            place if name == "month" or length < 28 else min(range(place - 3, place + 4), key=lambda n: n % 7)
        )
        groups = dict.fromkeys(tuple(self._label(of, *each) for of in group) for each in [*now, *before])
        for of_group in groups:
            days = Counter(d for d, c in before if tuple(self._label(of, d, c) for of in group) == of_group)
            left = days.total()
            every = [first + n * DAY for n in range((last - first).days + 1)]
            for label in dict.fromkeys(_unit(name, day) for day in every):
                if name == "month" and first.day == earlier.day:
                    months = 12 * (first.year - earlier.year) + first.month - earlier.month
                    other = _unit("month", _month(date.fromisoformat(f"{label}-01"), -months))
                    known = [n for day, n in days.items() if day[:7] == other]
                    exists = str(earlier)[:7] <= other <= str(last_before)[:7]
                    clicks = sum(known) if exists else None
                else:
                    clicks = 0
                    for day in every:
                        if _unit(name, day) == label and clicks is not None:
                            source = day - apart * DAY
                            is_like = (is_cut and day == last) == (is_cut_before and source == last_before)
                            is_there = earlier <= source <= last_before
                            clicks = clicks + days[str(source)] if is_like and is_there else None
                left -= clicks or 0
                found[(*of_group, label)] = count[(*of_group, label)], clicks
            if left:
                found[(*of_group, None)] = 0, left
        return {labels: row for labels, row in found.items() if any(row)}

    def _is_cut(self, end: datetime) -> bool:
        return (end.hour, end.minute, end.second) != (23, 59, 59)

    def expected_top(self, log: list[Click]) -> list[tuple[int, int]]:
        """Return the clicks, and those before, of the slashtags of `top`, by what they are ranked by."""
        (first, end), (earlier, end_before) = self._spans()
        now, before = (
            Counter(click.slashtag for _, click in self._clicks(log, *of))
            for of in ((first, end), (earlier, end_before))
        )
        ranks = {
            key: {"clicks": now[key], "growth": now[key] - before[key], "decline": before[key] - now[key]}[
                self.top
            ]
            for key in {**now, **before}
        }
        return sorted(((ranks[key], now[key], before[key]) for key in ranks if ranks[key] > 0), reverse=True)

    def check(self, rows: list[dict[str, Any]], log: list[Click]) -> None:
        """Assert that the rows of an answer are right."""
        if self.top:
            right = self.expected_top(log)
            ranks = [
                {
                    "clicks": row["clicks"],
                    "growth": row["clicks"] - row["clicks_before"],
                    "decline": row["clicks_before"] - row["clicks"],
                }[self.top]
                for row in rows
            ]
            assert ranks == [rank for rank, *_ in right][:9]
            assert all(
                (rank, row["clicks"], row["clicks_before"]) in right
                for rank, row in zip(ranks, rows, strict=True)
            )
            return
        names, found = self.by.split(","), dict[tuple[str | None, ...], tuple[int, int | None]]()
        for row in rows:
            labels = tuple(row[name] for name in names)
            clicks, before = found.get(labels, (0, 0)) if labels[-1] is None else (0, 0)
            found[labels] = (
                clicks + row["clicks"],
                (before or 0) + row["clicks_before"] if row.get("clicks_before") is not None else None,
            )
            if self.compare and row["clicks_before"]:
                assert row["compared_with"]
        assert {labels: row for labels, row in found.items() if any(row)} == self.expected(log)


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

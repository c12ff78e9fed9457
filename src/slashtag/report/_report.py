"""A report: its figures, what follows from them, and the documents that show them."""

import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from msgspec import Struct

from .. import DateRange, ExportError, InvalidRequestError, RangeStats, ShortUrl
from .._internal import DAY, PREVIOUS, days_apart, import_extra
from ..tables import AtomicFile
from . import _format as fmt
from ._branding import Branding

#: The chart and the trends of a longer span than this show the average of each week.
CHART_DAILY = 120
#: Pixels of a day, below which a chart shows weeks: the bar and the band behind it could not be told apart.
NARROWEST = 4
#: In a longer span than this days are summed by month and weekday.
WEEKS_DAILY = 92

#: Endings of the files that a report can be written to.
FORMATS = (".html", ".png", ".pdf")

EPOCH = date(1970, 1, 1)
# In a page the style sheet has the colours, for light and dark.
_CSS = {name: f"var(--{name})" for name in ("accent", "soft", "muted", "line", "before")}
_ROOT = re.compile(r'<svg [^>]*?width="([\d.]+)" height="([\d.]+)"[^>]*>')


class TopLink(Struct, frozen=True, kw_only=True):
    """One of the links with most clicks: its clicks in the span, in all and by day.

    `before` is its clicks in the span before, None if unknown. `is_shared` says that the slashtag also
    belongs to a link outside the report: `clicks` are then those that its links in the report have at least,
    `at_most` the most that they may have; `by_day` is empty where these differ.
    """

    slashtag: str
    short_url: str | None = None
    destination: str | None = None
    clicks: int
    at_most: int | None = None
    before: int | None = None
    by_day: dict[date, int]
    is_shared: bool = False

    @property
    def change(self) -> float | None:
        """Change against `before`, 0.5 for half as many more; None where it had no clicks."""
        if self.before is None or self.at_most not in (None, self.clicks):
            return None
        return _change(self.clicks, self.before)

    @property
    def trend(self) -> list[tuple[float, float]]:
        """Points of its clicks by day, or by week as in `Report.curves`."""
        return _points([*self.by_day.values()], 7 if len(self.by_day) > CHART_DAILY else 1)


class Report(Struct, frozen=True, kw_only=True):
    """All figures on the clicks from `start` to `end`, both included, and the documents that show them.

    All documents need the extra `report` and raise ExportError where it is not installed.

    Where the span is not over, `stats` ends at `asked_at`. `before` is the clicks of `previous`, and
    `before_stats` says which (nothing where that is unknown). `links_clicked` of the `links` slashtags have
    clicks, None where links were not counted one by one.

    `tag` and `destination` (host and path) have clicks by label where there are several, `shared` the
    (dimension, label) of those that may have more: clicks of slashtags that links with another label have too
    are in none. The tag "" stands for links without one. `tag_before` and `destination_before` have the
    clicks of labels in `previous`, as far as they were counted. `link` is the only link of the report, if it
    has a single one and that was listed. `hourly` has the clicks of each hour, where asked for. `asked_at` is
    the time in `zone` before the first request, `requests` their number. Of the slashtags `repeated` have
    several links in the report, `foreign` others outside it as well; statistics cannot be requested for
    `uncountable` links.
    """

    start: date
    end: date
    zone: str = "UTC"
    asked_at: datetime
    requests: int
    selection: str
    link: ShortUrl | None = None
    links: int
    links_clicked: int | None
    stats: RangeStats
    compare: str = PREVIOUS
    before: int
    before_stats: RangeStats = RangeStats()
    top: tuple[TopLink, ...] = ()
    tag: dict[str, int] = {}
    tag_before: dict[str, int] = {}
    destination: dict[str, int] = {}
    destination_before: dict[str, int] = {}
    shared: frozenset[tuple[str, str]] = frozenset()
    hourly: dict[datetime, int] = {}
    repeated: int = 0
    foreign: int = 0
    uncountable: int = 0
    branding: Branding = Branding()

    @property
    def is_one_link(self) -> bool:
        """Whether it is about a single link, whose clicks are those of the report."""
        return self.link is not None and not self.foreign

    @property
    def total(self) -> int:
        """Clicks of the span."""
        return self.stats.total_clicks

    @property
    def days(self) -> int:
        """Length of the span in days."""
        return (self.end - self.start).days + 1

    @property
    def days_over(self) -> int:
        """Number of its days that were over when it was asked about."""
        return min(self.days, (self.asked_at.date() - self.start).days)

    @property
    def partial_day(self) -> date | None:
        """The day that was not over when it was counted; None where all were."""
        return None if self.days_over == self.days else self.asked_at.date()

    @property
    def unfinished(self) -> str | None:
        """How much of the span is counted, in words; None once it is over."""
        if self.partial_day is None:
            return None
        over = f"{self.days_over} of {fmt.many(self.days, 'day', 'days')} over"
        return f"{over}; clicks until {fmt.weekday(self.partial_day)}, {self.asked_at:%H:%M}"

    @property
    def counted_days(self) -> list[date]:
        """The days of the span that have begun, in order."""
        return [self.start + n * DAY for n in range(self.days_over + (self.partial_day is not None))]

    @property
    def previous(self) -> DateRange:
        """The range that it is compared with, see `DateRange.with_previous`."""
        zone = self.asked_at.tzinfo or UTC
        return DateRange(self.start, self.end).with_previous(zone, self.asked_at, self.compare)[1]

    @property
    def previous_days(self) -> int:
        """Length of the range that it is compared with, in days."""
        first, last = self.previous.span(self.asked_at.tzinfo or UTC)
        return (last - first).days + 1

    @property
    def days_apart(self) -> int:
        """How many days before a day the day is that it is compared with, of the same weekday if possible."""
        return days_apart(self.start, self.end, *self.previous.span(self.asked_at.tzinfo or UTC))

    @property
    def is_shifted(self) -> bool:
        """Whether days are compared with those of the same weekday, and not of the same place in the span."""
        return (
            self.days <= CHART_DAILY
            and self.days_apart != (self.start - self.previous.span(self.asked_at.tzinfo or UTC)[0]).days
        )

    @property
    def before_span(self) -> str:
        """The days that it is compared with, in words."""
        until = self.previous.bounds[1]
        # If the month before is shorter, all of it is compared.
        is_cut = isinstance(until, datetime) and f"{until:%T}" != "23:59:59"
        return fmt.span(*self.previous.span(self.asked_at.tzinfo or UTC)) + f", until {until:%H:%M}" * is_cut

    @property
    def change(self) -> float | None:
        """Change against `before`, 0.5 for half as many more; None where that had no clicks."""
        return _change(self.total, self.before)

    def counts(self, dimension: str) -> dict[str, int]:
        """Return the clicks by label of a dimension, the most first; 0 for labels of the span before only."""
        is_of_links = dimension in fmt.OF_LINKS
        found: dict[str, int] = getattr(self if is_of_links else self.stats, dimension)
        before = self._sent_before(dimension)
        if not is_of_links and dimension not in self.stats.incomplete_dimensions:
            found = dict.fromkeys(before, 0) | found
        return dict(sorted(found.items(), key=lambda item: (-item[1], -before.get(item[0], 0), item[0])))

    def _sent_before(self, dimension: str) -> dict[str, int]:
        """Return the clicks by label in the span before, as they were counted."""
        if dimension in fmt.OF_LINKS:
            found: dict[str, int] = getattr(self, f"{dimension}_before")
        else:
            found = getattr(self.before_stats, dimension)
        return found

    def before_of(self, dimension: str) -> dict[str, int]:
        """Return the clicks that labels had in the span before; without those of which they are unknown."""
        known = self._sent_before(dimension)
        is_partial = dimension in self.before_stats.incomplete_dimensions or not self.before_stats.total
        if dimension in fmt.OF_LINKS or is_partial:
            return known
        return dict.fromkeys(self.counts(dimension), 0) | known

    def before_together(self, dimension: str, labels: Iterable[str]) -> int | None:
        """Return the clicks that labels had together in the span before; None if those of one are unknown."""
        before = self.before_of(dimension)
        clicks = [None if (dimension, each) in self.shared else before.get(each) for each in labels]
        known = [n for n in clicks if n is not None]
        return sum(known) if len(known) == len(clicks) else None

    def changes_of(self, dimension: str) -> dict[str, float | None]:
        """Return the change of each label against the span before; None where that has no clicks."""
        before = self.before_of(dimension)
        return {
            label: _change(clicks, before.get(label, 0)) for label, clicks in self.counts(dimension).items()
        }

    @property
    def curves(self) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
        """Points of the span, today included, and of the span before: number of the day, clicks.

        A day of the span before stands at the place of the day that is compared with it, see `days_apart`. Of
        a long span each point is the average of a week, from the first day on; the last may be longer, and
        today is left out.
        """
        return self._curves(CHART_DAILY)

    def _curves(self, most_days: int) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
        days = self.counted_days
        step = 7 if len(days) > most_days else 1
        days = days[: self.days_over] if step > 1 else days
        earlier = self.before_stats.clicks if self.before else {}
        apart = timedelta(self.days_apart) if earlier else DAY
        return (
            _points([self.stats.clicks.get(day, 0) for day in days], step),
            _points([earlier.get(day - apart) for day in days], step),
        )

    def is_weekly(self, width: int) -> bool:
        """Whether a chart of a width, in pixels, shows the average of each week: days would be too narrow."""
        return len(self.counted_days) > _most_days(width)

    @property
    def average(self) -> float | None:
        """Clicks a day, today left out; None where no day is over or today's clicks are unknown."""
        if not self.days_over or (self.partial_day is not None and not self.stats.days_complete):
            return None
        today = self.stats.clicks.get(self.partial_day, 0) if self.partial_day else 0
        return (self.total - today) / self.days_over

    @property
    def busiest(self) -> tuple[date, int] | None:
        """The day with most clicks, the first of equals; None where no day has any."""
        counts = self.stats.clicks
        day = max(counts, key=lambda day: (counts[day], -day.toordinal()), default=None)
        return (day, counts[day]) if day and counts[day] else None

    @property
    def weekdays(self) -> dict[str, list[int | None]]:
        """Clicks of each month on its Mondays to Sundays; of a short span by week. None where it has none.

        A single row would repeat the days: then there is none.
        """
        rows: dict[str, list[int | None]] = {}
        for day in self.counted_days:
            monday = day - day.weekday() * DAY
            name = f"{fmt.MONTHS[day.month - 1]} {day.year}" if self.days > WEEKS_DAILY else fmt.short(monday)
            row = rows.setdefault(name, [None] * 7)
            if day in self.stats.clicks:
                row[day.weekday()] = (row[day.weekday()] or 0) + self.stats.clicks[day]
        return rows if len(rows) > 1 else {}

    @property
    def weekday_sums(self) -> dict[str, list[float | None]]:
        """Clicks of all Mondays to Sundays, and their average, from which today is left out."""
        by_weekday: list[list[tuple[date, int]]] = [[] for _ in range(7)]
        for day, clicks in self.stats.clicks.items():
            by_weekday[day.weekday()].append((day, clicks))
        over = [[n for day, n in each if day != self.partial_day] for each in by_weekday]
        return {
            "Total": [sum(n for _, n in each) if each else None for each in by_weekday],
            "Average": [sum(each) / len(each) if each else None for each in over],
        }

    @property
    def hours_of_week(self) -> dict[str, list[int | None]]:
        """Clicks of each hour of the day on Mondays to Sundays; empty unless asked for."""
        rows: dict[str, list[int | None]] = {f"{n:02}:00": [None] * 7 for n in range(24) if self.hourly}
        for hour, clicks in self.hourly.items():
            row = rows[f"{hour:%H}:00"]
            row[hour.weekday()] = (row[hour.weekday()] or 0) + clicks
        return rows

    @property
    def notes(self) -> list[str]:
        """What limits the figures of its links, in words."""
        return fmt.render("notes.txt", report=self).splitlines()

    def caveats(self) -> list[tuple[str, str]]:
        """Return what a reader has to know about the numbers, each as its first words and the rest."""
        lines = fmt.render("caveats.txt", report=self).splitlines()
        return [(head, text) for head, _, text in (line.partition("|") for line in lines)]

    def to_html(self) -> str:
        """Return the report as one page that loads nothing and runs no script."""
        return fmt.render("page.html", report=self)

    def to_png(self, scale: float = 2) -> bytes:
        """Return the main charts and all caveats as one picture, 1,200 x `scale` pixels wide.

        Characters that no font of the machine has are boxes.
        """
        if not 0 < scale <= 10:
            raise ExportError(f"scale is {scale}; it must be a positive number up to 10")
        return self._drawn("png", 1200, 0, scale=scale)

    def to_pdf(self) -> bytes:
        """Return the picture of `to_png` as one page, as wide as A4 and at least as high."""
        return self._drawn("pdf", 595, 842)

    def _drawn(self, kind: str, width: int, min_height: int, **options: Any) -> bytes:
        picture = fmt.render("picture.svg", report=self, width=width, min_height=min_height)
        document: bytes = getattr(import_extra("report", "vl_convert"), f"svg_to_{kind}")(picture, **options)
        return document

    def chart(self, width: int, height: int, labels: int, colours: Mapping[str, str] = _CSS) -> str:
        """Draw the clicks by day or week, with about so many labels below, as SVG.

        The span before is a band behind the bars, which are then narrower. The SVG is as wide as the element
        that holds it.
        """
        now, before = self._curves(_most_days(width))
        days = len(self.counted_days)
        # The bars of a few days are narrow, those of weeks wide.
        wide = min(0.5, 0.06 * days) * (7 if self.is_weekly(width) else 1)
        narrow = wide * (0.5 if before else 0.8)
        # Each day has a label, or every so many Mondays; of a long span months have.
        mondays = [n for n, day in enumerate(self.counted_days) if day.weekday() == 0]
        step = -(-len(mondays) // labels)
        labelled = mondays[::step] if len(mondays) > 1 else [*range(0, days, -(-days // labels))]
        labelled = [*range(days)] if days <= labels else labelled

        def at(n: float) -> float:
            """Return the milliseconds of a day in UTC: the machine's time zone must not matter."""
            return (self.start - EPOCH + n * DAY) / timedelta(milliseconds=1)

        spec = fmt.render(
            "chart.json",
            width=width,
            height=height,
            labels=labels,
            colours=colours,
            days=days,
            domain=(at(-0.5), at(days - 0.5)),
            most=math.ceil(max(count for _, count in [(0, 1), *now, *before])),
            ticks=[at(n) for n in labelled] if days <= CHART_DAILY else [],
            bars=[
                {"x": at(n - narrow), "x2": at(n + narrow), "y": count, "over": n < self.days_over}
                for n, count in now
            ],
            before=[{"x": at(n - wide), "x2": at(n + wide), "y": count} for n, count in before],
        )
        svg: str = import_extra("report", "vl_convert").vegalite_to_svg(spec, allowed_base_urls=[])
        return _ROOT.sub(r'<svg viewBox="0 0 \1 \2" aria-hidden="true" focusable="false">', svg, count=1)


def check_path(path: str | os.PathLike[str]) -> None:
    """Check that `write` can write this file, before anything is requested.

    Raises InvalidRequestError for another ending than FORMATS, ExportError where the file cannot be written
    or the extra `report` is not installed.
    """
    found = Path(path)
    if found.suffix.lower() not in FORMATS:
        raise InvalidRequestError(f"{found.name}: its name must end in one of {', '.join(FORMATS)}")
    for name in ("jinja2", "vl_convert"):
        import_extra("report", name)
    AtomicFile(found).discard()


def write(report: Report, path: str | os.PathLike[str]) -> None:
    """Write a report to a .html, .png or .pdf file atomically; raises what `check_path` raises."""
    check_path(path)
    draw = {".html": lambda: report.to_html().encode(), ".png": report.to_png, ".pdf": report.to_pdf}
    with AtomicFile(Path(path)) as file:
        file.write(draw[Path(path).suffix.lower()]())


def _change(now: int, before: int) -> float | None:
    return (now - before) / before if before else None


def _most_days(width: int) -> int:
    """Return for how many days a chart of a width, in pixels, has a bar for each."""
    return min(CHART_DAILY, width // NARROWEST)


def _points(clicks: Sequence[int | None], step: int) -> list[tuple[float, float]]:
    """Return the points of a curve: the average of each `step` days, at their middle.

    Days that are not known are left out.
    """
    cuts = [*range(0, len(clicks) - step + 1, step), len(clicks)]
    weeks = [((a + b - 1) / 2, [n for n in clicks[a:b] if n is not None]) for a, b in pairwise(cuts)]
    return [(middle, sum(known) / len(known)) for middle, known in weeks if known]

"""Counting is lossless, and like is compared with like: laws over random spans and clicks."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slashtag import DateRange
from slashtag.counts import (
    ROLLED,
    WEEKDAYS,
    Period,
    Rows,
    Spans,
    averages,
    change,
    compared,
    days_of,
    label_of,
    rolled,
    shares,
)

from .support.laws import examples

DAY = timedelta(days=1)
dates = st.dates(date(2023, 1, 1), date(2025, 1, 1))
groups = st.lists(st.sampled_from(["spring", "autumn", "no tag"]), min_size=1, max_size=2, unique=True)


@st.composite
def spans_of(draw: st.DrawFn) -> Spans:
    first, first_before = draw(dates), draw(dates)
    if draw(st.booleans()):
        first, first_before = first.replace(day=1), first_before.replace(day=1)
    length = draw(st.integers(0, 70))
    other = length if draw(st.booleans()) else draw(st.integers(0, 70))
    is_cut = draw(st.booleans())
    cut_too = is_cut and draw(st.booleans())
    return Spans(first, first + length * DAY, first_before, first_before + other * DAY, is_cut, cut_too)


@st.composite
def questions(draw: st.DrawFn) -> tuple[Spans, Rows, Rows]:
    """Two spans, and the clicks of each day of both, of one group or more."""
    spans = draw(spans_of())
    draws = [
        {(group, str(day)): draw(st.integers(0, 9)) for group in draw(groups) for day in days_of(first, last)}
        for first, last in (spans[:2], spans[2:4])
    ]
    return spans, draws[0], draws[1]


def of_group(rows: Rows) -> Counter[str]:
    found = Counter[str]()
    for (group, _), n in rows.items():
        found[group] += n
    return found


def as_hours(rows: Rows) -> Rows:
    """Give each day an hour that comes twice, as where the clocks go back."""
    hours = [(f"T02:00+0{offset}:00", offset) for offset in (2, 1)]
    return {(group, day + hour): n * by for (group, day), n in rows.items() for hour, by in hours}


@pytest.mark.parametrize("by", [*ROLLED, "hour", "country"])
@given(questions())
def test_no_click_of_either_span_is_lost_or_doubled(by: str, question: tuple[Spans, Rows, Rows]) -> None:
    spans, now, before = question
    if by == "hour":
        now, before = as_hours(now), as_hours(before)
    clicks, earlier = Counter[str | None](), Counter[str | None]()
    for row in compared(now, before, by, spans):
        clicks[row.labels[0]] += row.clicks
        earlier[row.labels[0]] += row.before or 0
    assert clicks == of_group(now)
    assert earlier == of_group(before)


@examples(100)
@given(questions(), st.sampled_from(["day", "week", "month"]))
def test_each_label_is_compared_with_the_days_that_its_row_names(
    question: tuple[Spans, Rows, Rows], by: str
) -> None:
    spans, now, before = question
    first, first_before = spans.first, spans.first_before
    days_before = days_of(first_before, spans.last_before)
    apart = (spans.days_apart if by != "month" else (first - first_before).days) * DAY
    months_apart = 12 * (first.year - first_before.year) + first.month - first_before.month
    for (group, label), clicks, earlier, named in compared(now, before, by, spans):
        if label is None:
            assert (clicks, bool(earlier), bool(named)) == (0, True, True)
            continue
        days = [day for day in days_of(first, spans.last) if label_of(str(day), by) == label]
        assert clicks == sum(now.get((group or "", str(day)), 0) for day in days)
        if by == "month" and first.day == first_before.day:
            month = 12 * int(label[:4]) + int(label[5:]) - months_apart
            others = [day for day in days_before if 12 * day.year + day.month == month]
        else:
            others = [day - apart for day in days]
            is_cut = spans.is_cut and spans.last in days
            is_cut_before = spans.is_cut_before and spans.last_before in others
            if is_cut != is_cut_before or not {*others} <= {*days_before}:
                others = []
        if not others:
            assert (earlier, named) == (None, None)
            continue
        assert str(named).startswith((label_of(str(others[0]), by), str(others[0])))
        assert earlier == sum(before.get((group or "", str(day)), 0) for day in others)


@given(spans_of())
@example(Spans(date(2024, 6, 1), date(2024, 6, 28), date(2024, 5, 1), date(2024, 5, 28)))
@example(Spans(date(2024, 6, 1), date(2024, 6, 27), date(2024, 5, 1), date(2024, 5, 27)))
def test_days_are_compared_at_the_same_place_or_from_four_weeks_on_with_the_same_weekday(
    spans: Spans,
) -> None:
    place = (spans.first - spans.first_before).days
    if min(spans.last - spans.first, spans.last_before - spans.first_before) < 27 * DAY:
        assert spans.days_apart == place
    else:
        assert spans.days_apart % 7 == 0
        assert abs(spans.days_apart - place) <= 3


def test_a_span_that_is_not_over_ends_now_and_the_one_before_as_far_on() -> None:
    march, began = DateRange("2024-03-01", "2024-03-31"), datetime(2024, 3, 1, tzinfo=UTC)
    # February has no 31st: it ends with its last day.
    for days, last, is_cut in ((28.5, 29, (True, True)), (30.5, 31, (True, False)), (31, 31, (False, False))):
        period = Period.at(began + days * DAY, march)
        spans = period.spans
        assert period.days == f"2024-03-01..2024-03-{last}"
        assert (spans.last.day, str(spans.last_before), spans[4:]) == (last, "2024-02-29", is_cut)


@given(questions(), st.sampled_from(ROLLED))
def test_rolling_up_keeps_the_clicks_of_each_group_and_names_each_day(
    question: tuple[Spans, Rows, Rows], unit: str
) -> None:
    _, now, _ = question
    found = rolled(now, unit)
    assert of_group(found) == of_group(now)
    assert {*found} == {(group, label_of(day, unit)) for group, day in now}
    for group in of_group(now) if unit == "weekday" else ():
        labels = [label for of, label in found if of == group]
        assert labels == [name for name in WEEKDAYS if name in labels]


def test_hours_are_compared_by_local_time_once() -> None:
    """The clocks go back: 02:00 comes twice, and the day before had it once."""
    spans = Spans(date(2024, 10, 27), date(2024, 10, 27), date(2024, 10, 26), date(2024, 10, 26))
    now = {("2024-10-27T02:00+02:00",): 1, ("2024-10-27T02:00+01:00",): 2}
    before = {("2024-10-26T02:00+02:00",): 4, ("2024-10-26T03:00+02:00",): 8}
    assert [(row.labels[0], row.before) for row in compared(now, before, "hour", spans)] == [
        ("2024-10-27T02:00+02:00", 4),
        ("2024-10-27T02:00+01:00", None),
        (None, 8),
    ]


@given(questions())
def test_shares_are_of_the_group_unless_a_whole_is_given(question: tuple[Spans, Rows, Rows]) -> None:
    _, now, _ = question
    for (group, label), percent in shares(now).items():
        whole = of_group(now)[group]
        assert percent == (round(100 * now[group, label] / whole, 1) if whole else 0.0)
        assert shares(now, 1000)[group, label] == round(now[group, label] / 10, 1)


@given(questions())
def test_the_day_that_is_not_over_is_in_no_average(question: tuple[Spans, Rows, Rows]) -> None:
    spans, now, _ = question
    days = {(day,): n for (_, day), n in now.items()}
    for label, average in averages(days, spans.last).items():
        of = [n for (day,), n in days.items() if label_of(day, "weekday") == label and day != str(spans.last)]
        assert average == round(sum(of) / len(of), 1)


@pytest.mark.parametrize(
    ("clicks", "before", "percent"), [(3, 2, 50.0), (0, 3, -100.0), (3, 0, None), (3, None, None)]
)
def test_a_change_has_a_percentage_where_there_was_something(
    clicks: int, before: int | None, percent: float
) -> None:
    assert change(clicks, before) == percent

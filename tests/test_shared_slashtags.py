"""Slashtags that several links share: what each may have of the clicks, compared with the truth by link."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slashtag import AsyncSession, DateRange, Failure, RangeStats, RetryPolicy, ServerError, ShortUrl
from slashtag._shared_slashtags import Bounds, Links, shares_left
from slashtag.sandbox import Sandbox
from tests.support.sandboxes import refused_link, refused_tag

DAYS = [date(2024, 6, 1) + timedelta(days=n) for n in range(3)]
JUNE = DateRange("2024-06-01", "2024-06-30")
COUNTRIES = ("SE", "FR")
#: Clicks of a link: a number for each day and country.
CLICKS = st.lists(st.integers(0, 3), min_size=6, max_size=6)


def stats(*numbers: list[int]) -> RangeStats:
    """Statistics of some links together."""
    cells = [sum(each) for each in zip(*numbers, strict=True)] or [0] * 6
    countries = {country: sum(cells[n::2]) for n, country in enumerate(COUNTRIES)}
    names = ("device", "browser", "platform", "referrer")
    return RangeStats(
        total_clicks=sum(cells),
        clicks={day: cells[2 * n] + cells[2 * n + 1] for n, day in enumerate(DAYS)},
        country={label: n for label, n in countries.items() if n},
        **{name: {"x": sum(cells)} if sum(cells) else {} for name in names},
    )


def cells(found: RangeStats) -> dict[Any, int]:
    """Every number of a result."""
    labels = {(name, label): n for name in found.DIMENSIONS for label, n in getattr(found, name).items()}
    return {**labels, "total": found.total}


@given(
    own=st.lists(CLICKS, max_size=2),
    shared=st.lists(st.tuples(CLICKS, CLICKS), min_size=1, max_size=4),
    uncounted=st.none() | CLICKS,
)
def test_the_truth_lies_within_the_bounds_and_the_least_never_add_up_to_more_than_the_tag(
    own: list[list[int]], shared: list[tuple[list[int], list[int]]], uncounted: list[int] | None
) -> None:
    others = [] if uncounted is None else [uncounted]
    of_tag = stats(*own, *(mine for mine, _ in shared), *others)
    of_own = stats(*own)
    given = {str(n): stats(mine, theirs) for n, (mine, theirs) in enumerate(shared)}
    found = shares_left(of_tag, of_own, given, are_all=uncounted is None)
    assert found.keys() == given.keys()
    left = cells(of_tag)
    for (mine, _), share in zip(shared, found.values(), strict=True):
        least, most = cells(share.least), cells(share.most)
        for cell, n in cells(stats(mine)).items():
            assert least.get(cell, 0) <= n <= most.get(cell, 0)
        for cell, n in least.items():
            left[cell] = left.get(cell, 0) - n
        assert share.most.total <= of_tag.total - of_own.total
        if len(shared) == 1 and uncounted is None:
            assert share.least == share.most == stats(mine)
    for cell, n in cells(of_own).items():
        left[cell] = left.get(cell, 0) - n
    assert min(left.values()) >= 0


@given(st.lists(st.tuples(st.integers(0, 5), st.sets(st.sampled_from("abc"), min_size=1)), max_size=6))
def test_labels_have_at_least_what_is_theirs_alone_and_never_more_than_all_together(
    given: list[tuple[int, set[str]]],
) -> None:
    links = Links()
    for n, (_, labels) in enumerate(given):
        links.by_slashtag[str(n)] = [ShortUrl(id=n, destination=label) for label in labels]
    clicks = {str(n): Bounds(count, count) for n, (count, _) in enumerate(given)}
    found = links.clicks_by(lambda link: link.destination or "", clicks)
    names = {label for _, labels in given for label in labels}
    assert found.keys() == (names if len(names) > 1 else set())
    for label, bounds in found.items():
        assert bounds.least == sum(count for count, labels in given if labels == {label})
        assert bounds.most == sum(count for count, labels in given if label in labels)
    assert sum(bounds.least for bounds in found.values()) <= sum(count for count, _ in given)


async def shares(box: Sandbox, *tags: str, **options: Any) -> dict[str, tuple[int, int]]:
    credentials = {"apikey": box.apikey, "apisecret": box.apisecret}
    async with AsyncSession(box.base_url, **credentials, retry=RetryPolicy(max_attempts=1)) as session:
        links = await Links.read(session, tags=tags)
        found = await links.shares(session, JUNE, **options)
    return {key: tuple(share.total) for key, share in found.items()}


def account(box: Sandbox) -> None:
    """A slashtag in two tags and without one, one in a tag and without one, and one of two links of a tag."""
    for tag in ("mail", "print"):
        box.add_tag(tag)
    places = [("three", "mail"), ("three", "print"), ("three", None), ("two", "mail"), ("two", None)]
    places += [("both", "mail"), ("both", "mail"), ("own", "mail"), ("paper", "print")]
    domains: dict[str, int] = {}
    for n, (slashtag, tag) in enumerate(places):
        domain = domains[slashtag] = domains.get(slashtag, -1) + 1
        link = box.add_url(slashtag, tag=tag, domain_id=domain)
        box.add_click(link, "2024-06-02T00:00:00", times=n + 1)


async def test_each_slashtag_has_at_most_what_its_tags_leave() -> None:
    async with Sandbox(urls=0, clicks=0, tags=0) as box:
        account(box)
        # mail: three 1, two 4, both 13, own 8. Without the tag: three 2 + 3, two 5.
        assert await shares(box, "mail") == {"three": (0, 5), "two": (0, 5)}
        # Only one slashtag of print has other links: it is known.
        assert await shares(box, "print") == {"three": (2, 2)}
        assert await shares(box, "mail", "print") == {"three": (2, 6), "two": (0, 5)}


async def test_a_tag_that_cannot_be_counted_leaves_its_slashtags_out_and_is_told() -> None:
    async with Sandbox(urls=0, clicks=0, tags=0) as box:
        account(box)
        failures: list[Failure[Any]] = []
        with refused_tag(box, "mail", 500):
            assert await shares(box, "mail", "print", on_error=failures.append) == {}
            assert [failure.tag for failure in failures] == ["mail"]
            with pytest.raises(ServerError):
                await shares(box, "mail")
        # The other slashtags are there; what the tag leaves may also be that of the one that failed.
        failures.clear()
        with refused_link(box, "two", 403):
            assert await shares(box, "mail", on_error=failures.append) == {"three": (0, 5)}
        assert {failure.keys for failure in failures} == {("two",)}


async def test_links_that_cannot_be_requested_may_have_what_a_tag_leaves() -> None:
    async with Sandbox(urls=0, clicks=0, tags=0) as box:
        account(box)
        box.add_url("a,b", tag="print")
        assert await shares(box, "print") == {"three": (0, 2)}


async def test_a_tag_with_fewer_clicks_than_its_links_is_counted_as_a_contradiction() -> None:
    async with Sandbox(urls=0, clicks=0, tags=0) as box:
        account(box)
        credentials = {"apikey": box.apikey, "apisecret": box.apisecret}
        async with AsyncSession(box.base_url, **credentials) as session:
            links = await Links.read(session, tags=["print"])
            # Its link has another tag by the time of the statistics.
            box.store.write("UPDATE link SET tag_id = NULL WHERE slashtag = ?", ("paper",))
            found = await links.shares(session, JUNE)
            assert (found["three"].total, session.metrics.inconsistent) == (Bounds(0, 0), 1)

"""Statistics by tag: each tag and none, adding up to the account whatever slashtags links share."""

from __future__ import annotations

import asyncio
from itertools import count
from random import Random
from typing import Any

import pytest

from slashtag import AllTime, BadRequestError, CountryGeo, DateRange, Failure, Year
from slashtag.sandbox import Sandbox
from tests.resources.accounts import counts, period, serving
from tests.support.sandboxes import altered, refused_tag

JUNE = DateRange("2024-06-01", "2024-06-30")
TAGS = ["mail", "print", "radio"]


def fill(box: Sandbox, seed: int) -> set[str]:
    """Fill an account at random; return the slashtags that links with and without a tag share."""
    random = Random(seed)
    for tag in TAGS:
        box.add_tag(tag)
    tags_of = dict[str, set[str | None]]()
    for slashtag, domain in random.sample([(f"s{n}", domain) for n in range(12) for domain in range(4)], 25):
        tag = random.choice([*TAGS, None])
        link = box.add_url(slashtag, tag=tag, domain_id=domain)
        tags_of.setdefault(slashtag, set()).add(tag)
        for _ in range(random.randrange(4)):
            labels = {"country": random.choice(["SE", "FR"]), "device": random.choice(["Mobile", "Tablet"])}
            box.add_click(link, f"2024-06-{random.randrange(1, 31):02d}T12:00:00", **labels)
    return {slashtag for slashtag, tags in tags_of.items() if None in tags and len(tags) > 1}


@pytest.mark.parametrize("seed", range(4))
async def test_each_tag_has_its_clicks_and_all_add_up_to_the_account(seed: int) -> None:
    async with serving() as (box, api):
        shared = fill(box, seed)
        found = await api.stats.by_tag(JUNE)
        keys = [url.slashtag for url in box.truth.urls()]
        assert list(found) == [*TAGS, None]
        for tag in TAGS:
            assert counts(found[tag]) == counts(box.truth.range("2024-06-01", "2024-06-30", tag=tag))
        assert counts(found.total) == counts(box.truth.range("2024-06-01", "2024-06-30", keys=keys))
        assert found.total.complete
        assert shared <= {*found[None].shared} & {*found.total.shared}
        yearly = await api.stats.by_tag(Year(2024))
        assert period(yearly.total) == period(box.truth.year(2024, keys=keys))
        assert yearly[None].total == found[None].total
        assert (await api.stats.by_tag(AllTime())).total.total == found.total.total
        places = await api.stats.by_tag(CountryGeo("SE", "2024-06-01", "2024-06-30"))
        assert places.total.total == found.total.country.get("SE", 0)
        assert not places[None].places_are_exact  # what is left of a named place is not known


def without_days_of_tags(asked: Any, answered: Any) -> Any:
    if "tag" in asked.query:
        del answered.data["clicks"]
    return answered


async def test_a_tag_that_fails_is_missing_and_leaves_what_is_not_known_unreconciled() -> None:
    async with serving() as (box, api):
        box.add_tag("mail")
        box.add_click(box.add_url("a", tag="mail"), "2024-06-02T00:00:00")
        box.add_url("a", domain_id=1)
        failures = list[Failure]()
        with refused_tag(box, "mail", 400):
            found = await api.stats.by_tag(JUNE, on_error=failures.append)
            with pytest.raises(BadRequestError):
                await api.stats.by_tag(JUNE)
        assert [failure.tag for failure in failures] == ["mail"]
        assert (found["mail"].missing, found.total.missing, found[None].reconciles) == (1, 1, False)
        with altered(box, without_days_of_tags):
            assert not (await api.stats.by_tag(JUNE))[None].complete


async def test_a_link_that_cannot_be_requested_is_told_if_no_tag_counts_it() -> None:
    async with serving() as (box, api):
        box.add_tag("mail")
        for slashtag, tag in (("a,b", None), ("c,d", "mail"), ("e", "mail"), ("f", None)):
            box.add_click(box.add_url(slashtag, tag=tag), "2024-06-02T00:00:00")
        found = await api.stats.by_tag(JUNE)
        assert (found["mail"].total, found["mail"].missing, found[None].missing) == (2, 0, 1)
        box.add_click(box.add_url("e", domain_id=1), "2024-06-02T00:00:00", times=2)
        rest = (await api.stats.by_tag(JUNE))[None]
        assert (rest.total, rest.missing, rest.reconciles) == (1, 2, False)


async def test_links_that_share_a_slashtag_are_counted_once_and_named() -> None:
    async with serving() as (box, api):
        for domain, slashtag in enumerate(("a", "a", "b")):
            box.add_click(box.add_url(slashtag, domain_id=domain), "2024-06-02T00:00:00")
        links = await api.urls.list().to_list()
        assert (await api.stats.collect(JUNE, keys=api.urls.list())).shared == ("a",)
        assert (await api.stats.collect(JUNE, keys=["a", "a", "b"])).shared == ()
        each = await api.stats.collect_each(JUNE, keys=links).to_dict()
        assert {key: (stats.total, stats.shared) for key, stats in each.items()} == {
            "a": (2, ("a",)),
            "b": (1, ()),
        }


async def test_links_of_a_tag_without_a_name_that_can_be_read_count_under_none() -> None:
    async with serving() as (box, api):
        box.add_tag("mail")
        box.add_click(box.add_url("a", tag="mail"), "2024-06-02T00:00:00")
        box.store.write("UPDATE tag SET name = ''", ())
        found = await api.stats.by_tag(JUNE)
    assert {tag: (each.total, each.complete) for tag, each in found.items()} == {None: (1, False)}


@pytest.mark.parametrize("query", [JUNE, Year(2024)])
async def test_an_account_without_links_and_tags_has_no_clicks(query: Any) -> None:
    async with serving() as (_, api):
        found = await api.stats.by_tag(query)
        assert {tag: each.total for tag, each in found.items()} == {None: 0}
        assert await api.stats.collect_each(query, keys=[], inferred=False).to_dict() == {}


@pytest.mark.parametrize("link", range(3), ids=["tagged", "shared and tagged", "shared without a tag"])
@pytest.mark.parametrize("after", range(4))
async def test_clicks_that_come_meanwhile_are_those_of_their_links_or_do_not_reconcile(
    link: int, after: int
) -> None:
    async with serving() as (box, api):
        box.add_tag("mail")
        tagged, both = box.add_url("a", tag="mail"), box.add_url("s", tag="mail", domain_id=1)
        links = [tagged, both, box.add_url("s", domain_id=2)]
        for each in links:
            box.add_click(each, "2024-06-02T00:00:00", times=10)
        asked = count()

        def click(arrival: Any, answered: Any) -> Any:
            if arrival.path.endswith("/stats") and next(asked) == after:
                # With labels that no click had before.
                box.add_click(links[link], "2024-06-02T00:00:00", times=3, country="NZ")
            return answered

        with altered(box, click):
            rest = (await api.stats.by_tag(JUNE))[None]
        assert next(asked) == 4
        # A journal may not answer all but the first.
        assert sum(arrival.no_cache for arrival in box.requests) == 3
        assert rest.total in (10, 10 + 3 * (link == 2)) or not rest.reconciles
        # Nor do they matter after the last answer, or on what no tag has.
        assert rest.reconciles or (after < 3 and link < 2)


async def test_a_link_that_is_tagged_meanwhile_does_not_reconcile() -> None:
    async with serving() as (box, api):
        box.add_tag("mail")
        box.add_url("a")
        with altered(
            box,
            lambda _, told: [told, box.store.write("UPDATE link SET tag_id = (SELECT id FROM tag)", ())][0],
        ):
            assert not (await api.stats.by_tag(JUNE))[None].reconciles


async def test_a_deadline_ends_the_requests_of_all_results() -> None:
    async with serving(latency=1.0) as (_, api):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await api.stats.collect_each(JUNE, keys=TAGS).to_dict()
        assert not api.metrics.in_flight

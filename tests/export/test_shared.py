"""Exports of the links of a tag, some of whose slashtags other links have too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from slashtag import DateRange, Failure, ServerError
from slashtag.export import Row, Summary, export_clicks
from slashtag.sandbox import Sandbox
from tests.support.sandboxes import refused_tag
from tests.support.sending import connect

SPAN = ("2024-01-01", "2024-03-31")


class Kept(list[Row]):
    """A writer that keeps the rows."""

    def write(self, rows: Iterable[Row], /) -> None:
        self += rows

    def close(self) -> None:
        raise AssertionError("the writer is its owner's to close")


async def exported(box: Sandbox, *tags: str, **options: Any) -> tuple[Kept, Summary]:
    kept = Kept()
    async with connect(box) as session:
        return kept, await export_clicks(session, DateRange(*SPAN), kept, tags=tags, **options)


def account(box: Sandbox) -> None:
    """Slashtags of a tag and of a link without one, of two links of a tag, and two of two tags."""
    for tag in ("fairs", "crowded"):
        box.add_tag(tag)
    places = [("own", 0, "fairs"), ("sale", 0, "fairs"), ("sale", 1, None), ("both", 0, "fairs")]
    places += [("both", 1, "fairs"), ("one", 0, "crowded"), ("one", 1, None), ("two", 0, "crowded")]
    places += [("two", 1, "fairs"), ("rest", 0, "crowded")]
    for n, (slashtag, domain, tag) in enumerate(places, 1):
        link = box.add_url(slashtag, domain_id=domain, tag=tag)
        box.add_click(link, "2024-01-31T00:00:00", times=n, country="SE")
        if slashtag in ("own", "one"):
            # On these days only one of several shared slashtags has clicks.
            box.add_click(link, f"2024-02-{n:02}T00:00:00", times=2 * n, country="FR")


@pytest.mark.unmeasured
@pytest.mark.parametrize("dimensions", [False, True])
@pytest.mark.parametrize("tags", [["fairs"], ["crowded"], ["crowded", "fairs"]])
async def test_rows_of_a_tag_add_up_to_at_most_what_the_tag_has(tags: list[str], dimensions: bool) -> None:
    async with Sandbox(urls=0, clicks=0, tags=0) as box:
        account(box)
        rows, summary = await exported(box, *tags, dimensions=dimensions)
        counts: Counter[Any] = Counter()
        for row in rows:
            counts[row[3:5] if dimensions else ("clicks", row[1])] += int(str(row[-1]))
        true = [box.truth.range(*SPAN, tag=tag) for tag in tags]
        for (name, label), clicks in counts.items():
            assert clicks <= sum(getattr(each, name).get(label, 0) for each in true)
    # One of the three of "fairs" has no other links.
    assert summary.shared == {("fairs",): 3, ("crowded",): 2, ("crowded", "fairs"): 4}[tuple(tags)]
    assert summary.bounded > 0


async def test_the_only_shared_slashtag_of_a_tag_is_exact_by_day_and_label() -> None:
    async with Sandbox(urls=0, clicks=0, tags=0) as box:
        box.add_tag("fairs")
        box.add_url("own", tag="fairs")
        mine, other = box.add_url("sale", tag="fairs"), box.add_url("sale", domain_id=1)
        box.add_click("own", "2024-02-01T00:00:00", times=2)
        box.add_click(mine, "2024-02-01T00:00:00", country="SE")
        box.add_click(other, "2024-02-01T00:00:00", times=6, country="SE")
        box.add_click(other, "2024-02-02T00:00:00", times=7, country="FR")
        rows, summary = await exported(box, "fairs")
        assert {(row[0], str(row[1])): row[2] for row in rows if row[2]} == {
            ("own", "2024-02-01"): 2,
            ("sale", "2024-02-01"): 1,
        }
        assert (len(rows), summary) == (2 * 91, Summary(rows=2 * 91, shared=1))
        rows, summary = await exported(box, "fairs", dimensions=True)
        assert [row[4:] for row in rows if row[0] == "sale" and row[3] == "country"] == [("SE", 1)]
        # Links that are selected by slashtag, and all links, have the clicks of the slashtag.
        async with connect(box) as session:
            for options in ({"keys": ["sale"]}, {}):
                kept = Kept()
                await export_clicks(session, DateRange(*SPAN), kept, **options)
                assert sum(int(str(row[2])) for row in kept if row[0] == "sale") == 14


async def test_days_on_which_one_of_several_has_clicks_are_exact_and_the_others_have_the_least() -> None:
    async with Sandbox(urls=0, clicks=0, tags=0) as box:
        account(box)
        rows, summary = await exported(box, "crowded")
        found = {(row[0], str(row[1])): row[2] for row in rows if row[2]}
        # 31 January: the tag has 6 + 8 + 10, its own slashtag 10; "one" has 13 in all: "two" at least 1.
        expected = {("rest", "2024-01-31"): 10, ("two", "2024-01-31"): 1, ("one", "2024-02-06"): 12}
        assert found == expected
        assert (summary.bounded, summary.shared) == (2, 2)


async def test_a_tag_that_cannot_be_counted_is_a_failure_and_leaves_its_slashtags_out() -> None:
    async with Sandbox(urls=0, clicks=0, tags=0) as box:
        account(box)
        failures: list[Failure] = []
        with refused_tag(box, "crowded", 501):
            rows, _ = await exported(box, "crowded", on_error=failures.append)
            assert {row[0] for row in rows} == {"rest"}
            assert {failure.tag for failure in failures} == {"crowded"}
            with pytest.raises(ServerError):
                await exported(box, "crowded")


@pytest.mark.unmeasured
@pytest.mark.parametrize("way", ["of a tag", "found"])
async def test_a_job_notices_what_becomes_of_links_that_it_does_not_select(way: str, tmp_path: Path) -> None:
    async with Sandbox(urls=0, clicks=0, tags=0) as box:
        box.add_tag("fairs")
        for slashtag, domain, tag, clicks in (
            *(("sale", 0, "fairs", 5), ("sale", 1, None, 13)),
            *(("own", 0, "fairs", 3), ("other", 1, None, 7)),
        ):
            link = box.add_url(slashtag, domain_id=domain, tag=tag)
            box.add_click(link, "2024-01-31T00:00:00", times=clicks)
        foreign, other = (
            box.store.links("WHERE slashtag = ? AND domain_id = 1", (key,))[0] for key in ("sale", "other")
        )

        async def totals() -> Counter[str]:
            kept: Counter[str] = Counter()
            rows = Kept()
            async with connect(box, journal=tmp_path / "job.journal") as job:
                selected: dict[str, Any] = {"tags": ["fairs"]}
                if way == "found":
                    found = await job.urls.find(["sale", "own"])
                    selected = {"keys": [link for link in found.values() if link]}
                await export_clicks(job, DateRange(*SPAN), rows, **selected)
            for slashtag, _, clicks in rows:
                kept[str(slashtag)] += int(str(clicks))
            return kept

        def true() -> dict[str, int]:
            clicks = Counter(click[0] for click in box.store.log())
            links = [each for each in box.truth.urls() if each.slashtag in ("sale", "own")]
            found = Counter[str]()
            for each in links:
                if way == "found" or each.tag_id is not None:
                    found[each.slashtag] += clicks[each.id]
            return found

        assert await totals() == true()
        for link, slashtag in (
            (foreign.id, "gone"),
            (other.id, "sale"),
            (other.id, "other"),
            (foreign.id, "sale"),
        ):
            box.store.write("UPDATE link SET slashtag = ? WHERE id = ?", (slashtag, link))
            assert await totals() == true(), (link, slashtag)


@pytest.mark.unmeasured
@pytest.mark.parametrize("hide", ["UPDATE tag SET name = ''", "DELETE FROM tag"])
async def test_a_tag_that_cannot_be_requested_is_told_as_missing(hide: str, tmp_path: Path) -> None:
    async with Sandbox(urls=0, clicks=0, tags=0) as box:
        account(box)
        for journal in (None, tmp_path / "job.journal"):
            async with connect(box, journal=journal) as session:
                assert (await export_clicks(session, DateRange(*SPAN), Kept(), by="tag")).reconciles
        box.store.write(f"{hide} WHERE name = ?", ("crowded",))
        for journal in (None, tmp_path / "job.journal"):
            rows = Kept()
            async with connect(box, journal=journal) as session:
                assert not (await export_clicks(session, DateRange(*SPAN), rows, by="tag")).reconciles
            assert {row[0] for row in rows} == {"fairs", "no tag"}


@pytest.mark.parametrize("dimensions", [False, True])
async def test_rows_of_all_tags_and_of_none_add_up_to_the_account(tmp_path: Path, dimensions: bool) -> None:
    async with Sandbox(urls=0, clicks=0, tags=0) as box:
        account(box)
        box.add_tag("no tag")
        box.add_click(box.add_url("alone"), "2024-02-02T00:00:00", times=5, country="IT")
        truth = box.truth.range(*SPAN)
        for journal in (None, tmp_path / "job.journal"):
            rows = Kept()
            async with connect(box, journal=journal) as session:
                summary = await export_clicks(
                    session, DateRange(*SPAN), rows, by="tag", dimensions=dimensions
                )
            assert summary.reconciles
            if dimensions:
                rows = Kept(row for row in rows if row[3] == "country")
            counts, of_none = Counter[Any](), 0
            for tag, *_, label, clicks in rows:
                counts[label] += int(str(clicks))
                of_none += int(str(clicks)) if tag == "(no tag)" else 0
            assert counts == Counter(truth.country if dimensions else truth.clicks)
            # "sale" and "one", which links with a tag have too, and "alone".
            assert of_none == 3 + (7 + 14) + 5


async def test_what_tags_leave_is_not_counted_where_one_failed() -> None:
    async with Sandbox(urls=0, clicks=0, tags=0) as box:
        account(box)
        rows, failures = Kept(), list[Failure]()
        with refused_tag(box, "crowded", 501):
            async with connect(box) as session:
                summary = await export_clicks(
                    session, DateRange(*SPAN), rows, by="tag", on_error=failures.append
                )
        assert not summary.reconciles
        assert [failure.tag for failure in failures] == ["crowded"]
        assert sum(int(str(row[-1])) for row in rows if row[0] == "no tag") == 0

"""`slashtag top`: the first places, compared with every link counted alone."""

from __future__ import annotations

from datetime import date
from itertools import cycle
from pathlib import Path

import pytest

from slashtag.sandbox import Sandbox
from slashtag.tables import read_table
from tests.support.sandboxes import forget, refused_tag

from .conftest import Cli, Serve, objects


@pytest.mark.parametrize("by", ["clicks", "growth", "decline"])
def test_the_first_places_are_those_of_links_counted_one_by_one(cli: Cli, box: Sandbox, by: str) -> None:
    ran = cli("top", "2024-06", "--by", by, "--limit", "70")
    slashtags = {url.slashtag for url in box.truth.urls()}
    spans = [("2024-06-01", "2024-06-30"), ("2024-05-01", "2024-05-31")]
    now, before = (
        {key: box.truth.range(*span, keys=[key]).total_clicks for key in slashtags} for span in spans
    )
    found = objects(ran.out)
    for row in found:
        key = row["slashtag"]
        assert (row["clicks"], row["clicks_before"]) == (now[key], before[key])
        assert row["percent"] == round(100 * now[key] / sum(now.values()), 1)
        change = round(100 * (now[key] - before[key]) / before[key], 1) if before[key] else None
        assert row["change_percent"] == change
    change = {key: now[key] - before[key] for key in slashtags}
    ranks = {"clicks": now, "growth": change, "decline": {key: -n for key, n in change.items()}}[by]
    assert len(found) > 5
    assert [ranks[row["slashtag"]] for row in found] == [
        n for n in sorted(ranks.values(), reverse=True) if n > 0
    ][:70]
    # Links that fell to 0 are in it.
    assert any(row["clicks"] == 0 for row in found) == (by == "decline")
    compared = "2024-06-01 to 2024-06-30, compared with 2024-05-01 to 2024-05-31 (UTC)"
    assert f"{compared}: {sum(now.values()):,} " in ran.err


@pytest.mark.unmeasured
@pytest.mark.parametrize("command", ["top 2024-06", "stats range 2024-06 --all --by hour --format jsonl"])
@pytest.mark.parametrize("slashtag", ["a://b", "://", "http://www.example/"])
def test_a_link_whose_slashtag_looks_like_a_url_is_counted_as_the_others_are(
    cli: Cli, own: Sandbox, command: str, slashtag: str
) -> None:
    for key in (slashtag, "spring"):
        own.add_click(own.add_url(key), "2024-06-05T12:00:00", times=3)
    true = own.truth.range("2024-06-01", "2024-06-30").total_clicks
    ran = cli(*command.split())
    assert ran.code == 0
    assert sum(row["clicks"] for row in objects(ran.out)) == true


@pytest.mark.unmeasured
def test_a_year_of_many_links_takes_few_requests(cli: Cli, serve: Serve) -> None:
    with serve(urls=800, clicks=8_000) as box:
        first = objects(cli("top", "2024", "--limit", "3").out)
        sent = len(box.requests)
        most = sorted(
            (box.truth.year(2024, keys=[url.slashtag]).clicks_total for url in box.truth.urls()), reverse=True
        )
    assert [row["clicks"] for row in first] == most[:3]
    assert sent < 60


@pytest.mark.unmeasured
def test_many_places_take_fewer_requests_than_links_counted_alone(cli: Cli, serve: Serve) -> None:
    with serve(urls=300, clicks=20_000) as box:
        rows = objects(cli("top", "2024-06", "--by", "decline", "--limit", "150").out)
        sent = len(box.requests)
        may, june = (box.truth.per_key(f"2024-{end[:2]}-01", f"2024-{end}") for end in ("05-31", "06-30"))
    fallen = [n for key in may if (n := june[key].total_clicks - may[key].total_clicks) < 0]
    assert [row["clicks"] - row["clicks_before"] for row in rows] == sorted(fallen)[:150]
    assert sent < 170


@pytest.mark.unmeasured
def test_links_of_a_tag_and_given_links_are_ranked_alone(cli: Cli, box: Sandbox) -> None:
    tag = box.truth.tags()[0]
    tagged = {url.slashtag for url in box.truth.urls() if url.tag_id == tag.id}
    rows = objects(cli("top", "2024", "--tag", tag.name, "--limit", "500").out)
    assert {row["slashtag"] for row in rows} == {
        key for key in tagged if box.truth.range("2024-01-01", "2024-12-31", keys=[key]).total_clicks
    }
    keys = sorted(tagged)[:3]
    # A zone with two offsets in a year is counted by days.
    rows = objects(cli("top", "2024", "--keys", ",".join(keys), "--timezone", "Europe/Berlin").out)
    assert {row["slashtag"] for row in rows} <= set(keys)
    assert cli("top", "2024", "--tag", "nobody has it").code == 2


def test_slashtags_that_links_without_the_tag_share_are_told(cli: Cli, own: Sandbox) -> None:
    own.add_tag("spring")
    own.add_url("shared", domain_id=0, tag="spring")
    own.add_url("shared", domain_id=1)
    own.add_url("alone", tag="spring")
    note = "slashtags that several links share: 1"
    assert note in cli("top", "2024", "--tag", "spring").err
    assert note not in cli("top", "2024", "--keys", "alone").err


def tagged_account(own: Sandbox) -> None:
    """Links of a tag that has 3 clicks, and of another, one of which has the slashtag of one of the first."""
    for tag in ("fairs", "others", "crowded"):
        own.add_tag(tag)
    for name, tag, domain, clicks in (
        ("expo", "fairs", 0, 2),
        ("sale", "fairs", 0, 1),
        ("sale", "others", 1, 12),
        ("more", "others", 0, 4),
        # Two that each may have the five clicks that the tag has beside those of "rest".
        ("one", "crowded", 0, 2),
        ("one", "others", 1, 30),
        ("two", "crowded", 0, 3),
        ("two", None, 1, 40),
        ("rest", "crowded", 0, 4),
        # All links of the slashtag have the tag.
        ("both", "crowded", 0, 1),
        ("both", "crowded", 1, 5),
    ):
        link = own.add_url(name, tag=tag, domain_id=domain)
        own.add_click(link, "2024-06-02T00:00:00", times=clicks)
        own.add_click(link, "2024-05-02T00:00:00", times=1)


@pytest.mark.unmeasured
@pytest.mark.parametrize("by", ["clicks", "growth", "decline"])
@pytest.mark.parametrize(
    "tags", [["fairs"], ["others"], ["crowded"], ["fairs", "others"], ["crowded", "fairs"]]
)
def test_no_link_of_a_tag_has_more_than_the_tag_leaves(
    cli: Cli, own: Sandbox, tags: list[str], by: str
) -> None:
    tagged_account(own)
    ran = cli("top", "2024-06", "--by", by, *(word for tag in tags for word in ("--tag", tag)))
    assert ran.code == 0
    rows = objects(ran.out)
    ids = {tag.id: tag.name for tag in own.truth.tags()}
    links = [url for url in own.truth.urls() if ids.get(url.tag_id or 0) in tags]
    total = sum(own.truth.range("2024-06-01", "2024-06-30", tag=tag).total_clicks for tag in tags)
    assert f": {total} click" in ran.err
    assert sum(row["percent"] for row in rows) <= 100.2
    assert sum(row["clicks"] for row in rows) <= total
    for row in rows:
        # A link has one more click than those of May.
        name = row["slashtag"]
        true = sum(url.hits - 1 for url in links if url.slashtag == name)
        assert row["clicks"] <= true <= (row.get("clicks_at_most") or row["clicks"])
        others = {url.tag_id for url in own.truth.urls() if url.slashtag == name} - {
            url.tag_id for url in links
        }
        assert (row.get("clicks_at_most") is None) == (not others)
    if by == "clicks":
        assert [row["clicks"] for row in rows] == sorted((row["clicks"] for row in rows), reverse=True)


@pytest.mark.unmeasured
def test_the_share_of_a_single_shared_slashtag_is_known(cli: Cli, own: Sandbox) -> None:
    tagged_account(own)
    rows = objects(cli("top", "2024-06", "--tag", "fairs").out)
    names = ("slashtag", "clicks", "percent", "clicks_before", "change_percent", "clicks_at_most")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("expo", 2, 66.7, 1, 100.0, None),
        ("sale", 1, 33.3, 1, 0.0, 1),
    ]
    # Where two may have what is left, both come after those that are known.
    rows = objects(cli("top", "2024-06", "--tag", "crowded").out)
    assert [(row["slashtag"], row["clicks"], row["clicks_at_most"]) for row in rows] == [
        ("both", 6, None),
        ("rest", 4, None),
        ("one", 0, 5),
        ("two", 0, 5),
    ]
    assert "clicks at most" in cli("top", "2024-06", "--tag", "crowded", "--format", "table").out
    assert "clicks at most" not in cli("top", "2024-06", "--all", "--format", "table").out
    # In files it is so too: without such a slashtag there is no column for it.
    for form in ("csv", "jsonl"):
        assert "at_most" not in cli("top", "2024-06", "--format", form).out


def test_a_tag_that_cannot_be_counted_ends_it(cli: Cli, own: Sandbox, quick_retries: None) -> None:
    tagged_account(own)
    with refused_tag(own, "fairs", 403):
        ran = cli("top", "2024-06", "--tag", "fairs")
    assert (ran.code, ran.out) == (1, "")


def test_without_a_span_it_is_the_last_30_days(cli: Cli) -> None:
    start, _, end, *_ = cli("top").err.split()
    assert (date.fromisoformat(end) - date.fromisoformat(start)).days == 29


@pytest.mark.unmeasured
def test_slashtags_of_links_with_different_tags_are_told_where_the_column_tag_is(
    cli: Cli, own: Sandbox
) -> None:
    tagged_account(own)
    for command in (("top", "2024-06"), ("export", "clicks", "2024-06-01")):
        assert "with different tags" in cli(*command, "--columns", "tag").err
        assert "with different tags" not in cli(*command, "--columns", "destination").err


def test_a_given_slashtag_has_the_tags_of_all_its_links(cli: Cli, own: Sandbox) -> None:
    """Its clicks are those of all of them, whichever the look-up finds first."""
    tagged_account(own)
    for command in (("top", "2024-06"), ("export", "clicks", "2024-06-01")):
        ran = cli(*command, "--columns", "tag", "--keys", "sale,more")
        tags = {row["slashtag"]: set(row["tag"].split(", ")) for row in objects(ran.out)}
        assert tags == {"sale": {"fairs", "others"}, "more": {"others"}}
        assert "1 slashtag of links with different tags" in ran.err


@pytest.mark.unmeasured
def test_only_slashtags_of_rows_are_told_to_have_different_tags(cli: Cli, own: Sandbox) -> None:
    tagged_account(own)
    # Of these links the first two share their slashtags.
    for limit, count in ((1, 1), (2, 2), (20, 3)):
        ran = cli("top", "2024-06", "--columns", "tag", "--limit", str(limit))
        told = [line for line in ran.lines if "with different tags" in line]
        assert len(told) == 1
        assert f"{count} slashtag" in told[0]
    ran = cli("top", "2024-06", "--columns", "tag", "--keys", "more,rest")
    assert "with different tags" not in ran.err
    assert {row["slashtag"]: (row["tag"], row["clicks"]) for row in objects(ran.out)} == {
        "more": ("others", 4),
        "rest": ("crowded", 4),
    }
    rows = objects(cli("top", "2024-06", "--columns", "tag").out)
    true = {row["slashtag"]: own.truth.range(*SPAN, keys=[row["slashtag"]]).total_clicks for row in rows}
    assert {row["slashtag"]: row["clicks"] for row in rows} == true


@pytest.mark.parametrize("links", ["--untagged", "--keys=sale,rest,101", "--keys=https://a.example/rest"])
@pytest.mark.parametrize("more", ["--columns=destination", "--by=tag"])
def test_links_that_are_selected_and_told_more_of_are_listed_once(
    cli: Cli, own: Sandbox, links: str, more: str
) -> None:
    tagged_account(own)
    own.add_click(own.add_url("rest", domain_id=2), "2024-06-05T12:00:00")
    if "://" in links:
        links = f"--keys={next(url.short_url for url in own.truth.urls() if url.slashtag == 'rest')}"
    for command in ("top", "stats") if more == "--by=tag" else ("top",):
        forget(own)
        assert objects(cli(command, "2024-06", links, more).out)
        assert [each.query["page"] for each in own.requests if each.path.endswith("/urls")] == ["1"]


def test_a_file_is_told_with_its_rows_and_what_columns_can_be_added(
    cli: Cli, box: Sandbox, tmp_path: Path
) -> None:
    commands = (
        (("top", "2024-06"), "tag,short_url,destination"),
        (("top", "2024-06", "--columns", "short_url"), "short_url,tag,destination"),
        (("top", "2024-06", "--columns", "tag,short_url,destination"), None),
        (("top", "2024-06", "--by", "tag"), None),
        (("stats", "2024-06", "--by", "tag"), None),
        (("stats", "2024-06", "--by", "device,tag"), None),
        (("stats", "2024-06"), None),
    )
    for (command, added), form in zip(commands, cycle(("csv", "xlsx", "jsonl")), strict=False):
        printed = cli(*command, "--format", "jsonl")
        assert " rows to " not in printed.err
        path = tmp_path / f"rows.{form}"
        ran = cli(*command, "-o", str(path))
        assert (ran.code, ran.out) == (0, "")
        rows = len(read_table(path)[1])
        assert rows == len(objects(printed.out))
        assert f"; {rows} rows to {path}; " in ran.err
        assert ("more columns" in ran.err) == (added is not None)
        assert added is None or f"more columns: --columns {added}" in ran.lines


SPAN = ("2024-06-01", "2024-06-30")
BEFORE = ("2024-05-01", "2024-05-31")


@pytest.mark.parametrize("zone", ["+00:00", pytest.param("-09:30", marks=pytest.mark.unmeasured)])
def test_links_without_clicks_are_listed_with_those_before(cli: Cli, box: Sandbox, zone: str) -> None:
    ran = cli("top", "june 2024", "--no-clicks", "--timezone", zone)
    now, before = (box.truth.per_key(*span, timezone=zone) for span in (SPAN, BEFORE))
    expected = {key: before[key].total_clicks for key, stats in now.items() if not stats.total_clicks}
    rows = objects(ran.out)
    assert {row["slashtag"]: row["clicks_before"] for row in rows} == expected
    assert all(row["clicks"] == 0 for row in rows)
    counts = [row["clicks_before"] for row in rows]
    assert counts == sorted(counts, reverse=True)
    assert f"{sum(stats.total_clicks for stats in now.values()):,} clicks" in ran.err
    first = objects(cli("top", "june 2024", "--no-clicks", "--limit", "3", "--timezone", zone).out)
    assert [row["clicks_before"] for row in first] == counts[:3]
    told = f" {len(expected)} links "
    assert told in cli("top", "june 2024", "--timezone", zone).err
    assert told in cli("top", "june 2024", "--limit", "130", "--timezone", zone).err
    of_year = box.truth.per_key("2024-01-01", "2024-12-31", timezone=zone).values()
    idle = sum(not stats.total_clicks for stats in of_year)
    assert f" {idle} links " in cli("top", "2024", "--limit", "130", "--timezone", zone).err


def test_a_link_of_a_tag_that_may_have_had_clicks_is_listed_with_the_most(cli: Cli, own: Sandbox) -> None:
    own.add_tag("fairs")
    for slashtag in ("sure", "maybe", "perhaps", "clicked"):
        own.add_url(slashtag, tag="fairs")
    for n, slashtag in enumerate(("maybe", "perhaps"), 2):
        own.add_click(own.add_url(slashtag, domain_id=1), "2024-06-05T12:00:00", times=n)
    for slashtag in ("clicked", "maybe"):
        own.add_click(slashtag, "2024-06-05T12:00:00")
    ran = cli("top", *SPAN, "--no-clicks", "--tag", "fairs")
    most = {row["slashtag"]: row["clicks_at_most"] for row in objects(ran.out)}
    assert most == {"sure": None, "maybe": 1, "perhaps": 1}


@pytest.mark.unmeasured
@pytest.mark.parametrize("command", ["top", "stats", "export clicks"])
def test_links_without_a_tag_are_selected(cli: Cli, own: Sandbox, command: str) -> None:
    own.add_tag("fairs")
    for n, (slashtag, tag) in enumerate((("one", "fairs"), ("two", None), ("three", None)), 1):
        own.add_click(own.add_url(slashtag, tag=tag), "2024-06-05T12:00:00", times=n)
    ran = cli(*command.split(), *SPAN, "--untagged")
    rows = objects(ran.out)
    found = rows[0]["clicks"] if command == "stats" else sum(row["clicks"] for row in rows)
    assert (ran.code, found) == (0, 5)
    # What is counted together with a link that has a tag is told.
    own.add_url("three", domain_id=1, tag="fairs")
    shared = cli(*command.split(), *SPAN, "--untagged")
    assert shared.code == 3
    assert "https://" in shared.err


def test_an_account_whose_links_all_have_a_tag_has_none_without(cli: Cli, serve: Serve) -> None:
    with serve(urls=0, clicks=0) as box:
        box.add_tag("fairs")
        box.add_url("one", tag="fairs")
        for command in (("top",), ("stats",), ("export", "clicks")):
            ran = cli(*command, *SPAN, "--untagged")
            assert (ran.code, ran.out) == (2, "")

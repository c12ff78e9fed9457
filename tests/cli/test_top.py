"""`top`: its rows say which link they are about; the numbers are counted by test_truth.py."""

from __future__ import annotations

from slashtag.sandbox import Sandbox

from .conftest import Cli, objects


def test_rows_name_the_link_and_what_it_is_compared_with(cli: Cli, box: Sandbox) -> None:
    ran = cli("top", "2024-06", "--limit", "5")
    links = {url.slashtag: url for url in box.truth.urls()}
    tags = {tag.id: tag.name for tag in box.truth.tags()}
    total = box.truth.range("2024-06-01", "2024-06-30").total_clicks
    rows = objects(ran.out)
    assert len(rows) == 5
    for row in rows:
        link = links[row["slashtag"]]
        assert (row["id"], row["destination"]) == (link.id, link.destination)
        assert row["tag"] == tags.get(link.tag_id or 0)
        assert row["percent"] == round(100 * row["clicks"] / total, 1)
        assert row["compared_with"] == "2024-05-01..2024-05-31"
    compared = "2024-06-01..2024-06-30 (UTC), compared with 2024-05-01..2024-05-31"
    assert f"{compared}: {total:,} clicks of {len(box.truth.urls())} links; " in ran.err


def test_a_slashtag_that_several_links_share_is_one_row_and_what_is_missing_is_told(
    cli: Cli, own: Sandbox
) -> None:
    own.add_tag("spring")
    own.add_url("a0", tag="spring", domain_id=1)
    own.add_click("a0", "2024-06-02T00:00:00", times=3)
    own.add_click("a1", "2024-06-02T00:00:00")
    ran = cli("top", "2024-06")
    row, _ = objects(ran.out)
    assert (row["clicks"], row["id"], row["tag"], row["percent"]) == (3, None, "spring", 75)
    assert (ran.code, f" of {len(own.truth.urls())} links" in ran.err) == (0, True)
    shared = cli("top", "2024-06", "--tag", "spring")
    assert (shared.code, "a0" in shared.err) == (3, True)
    (row,) = objects(shared.out)
    assert (row["clicks"], row["percent"]) == (3, 100)
    own.add_url("cannot,be-requested")
    assert cli("top", "2024-06").code == 3


def test_without_a_span_it_is_30_days_up_to_now(cli: Cli) -> None:
    assert ", so far (UTC), compared with " in cli("top").err

"""Output of the commands, compared with the true figures of the account."""

from __future__ import annotations

import io
import sys
from datetime import date
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from slashtag import RangeStats, __version__, parse_zone
from slashtag._resources.stats import Stats
from slashtag.sandbox import Sandbox

from .conftest import Cli, objects

#: Five clicks, each of which has all labels.
LABELS = ("device", "browser", "platform", "country", "referrer")
FIVE: dict[str, Any] = {"total_clicks": 5, **{name: {"x": 5} for name in LABELS}}


def test_urls_list_prints_every_link_in_order(cli: Cli, box: Sandbox) -> None:
    ran = cli("urls", "list")
    assert (ran.code, ran.err) == (0, "")
    tags = {None: None, **{tag.id: tag.name for tag in box.truth.tags()}}
    shown = ("id", "slashtag", "hits", "tag_id", "tag_name")
    assert [tuple(url[name] for name in shown) for url in objects(ran.out)] == [
        (url.id, url.slashtag, url.hits, url.tag_id, tags[url.tag_id]) for url in box.truth.urls()
    ]


def test_limit_and_order_are_kept(cli: Cli, box: Sandbox) -> None:
    ran = cli("urls", "list", "--orderby", "-date", "--limit", "3")
    assert [url["id"] for url in objects(ran.out)] == [url.id for url in box.truth.urls()[:-4:-1]]


def test_links_are_filtered_by_tag_text_and_day_of_creation(cli: Cli, box: Sandbox) -> None:
    tag, urls = box.truth.tags()[0], box.truth.urls()

    def listed(*options: str) -> list[int]:
        return [url["id"] for url in objects(cli("urls", "list", *options).out)]

    tagged = [url.id for url in urls if url.tag_id == tag.id]
    assert listed("--tag", tag.name) == tagged
    assert listed("--tag", tag.name, "--limit", "2") == tagged[:2]
    text = urls[3].destination[-9:]
    assert listed("--search", text.upper()) == [url.id for url in urls if text in url.destination]
    day = urls[60].created_at[:10]
    assert listed("--created-after", day) == [url.id for url in urls if url.created_at >= day]
    assert "no tag 'nobody has it'" in cli("urls", "list", "--tag", "nobody has it").error
    assert listed("--untagged") == [url.id for url in urls if url.tag_id is None]
    assert listed("--updated-after", day) == [url.id for url in urls if url.updated_at >= day]
    assert cli("urls", "list", "--untagged", "--tag", "x").code == 2


@pytest.mark.parametrize(
    "command",
    [
        ("stats", "2024-06", "--timezone", "+00:00", "--timezone", "+01:00"),
        ("top", "2024-06", "--columns", "tag", "--columns=destination"),
        ("urls", "list", "--limit", "1", "--limit", "2"),
        ("export", "clicks", "2024-06", "--all", "-o", "a.csv", "--output", "b.csv"),
    ],
)
def test_an_option_given_twice_is_refused_but_those_of_lists_and_flags_are_not(
    cli: Cli, box: Sandbox, command: tuple[str, ...]
) -> None:
    names = [tag.name for tag in box.truth.tags()]
    both = cli("stats", "2024-06", "--tag", names[0], "--tag", names[1], "-v", "-v")
    assert both.code == 0
    box.requests.clear()
    assert cli(*command).code == 2
    assert not box.requests


@pytest.mark.parametrize(
    ("words", "compare"),
    [
        (("june", "2024"), ("last year",)),
        (("june 2024",), ("june", "2023")),
        (("Jun", "2024"), ("last", "year")),
        (("2024-06-01", "to", "2024-06-30"), ("2023-06",)),
    ],
)
def test_a_span_is_said_in_words_wherever_one_stands(
    cli: Cli, box: Sandbox, words: tuple[str, ...], compare: tuple[str, ...]
) -> None:
    now, before = (box.truth.range(f"{year}-06-01", f"{year}-06-30").total_clicks for year in (2024, 2023))
    for given in ((*words, "--compare", *compare), ("--compare", *compare, "--by", "device", *words)):
        ran = cli("stats", *given, "--format", "csv")
        assert f"{now:,} clicks, compared with 2023-06-01 to 2023-06-30: {before:,} clicks" in ran.err
    ran = cli("top", *words, "--compare", *compare)
    assert ran.err.startswith("2024-06-01 to 2024-06-30, compared with 2023-06-01 to 2023-06-30")
    exported = cli("export", "clicks", *words)
    assert sum(row["clicks"] for row in objects(exported.out)) == now


def test_the_most_words_that_are_one_span_are_one(cli: Cli) -> None:
    # The first of them alone are no span, or another one.
    for words in (["last", "month"], ["last", "30", "days"], ["this", "month", "to", "date"]):
        ran, joined = (cli("stats", *given, "--by", "country") for given in (words, ["-".join(words)]))
        assert (ran.code, ran.out) == (0, joined.out)
        assert ran.err.partition(";")[0] == joined.err.partition(";")[0]
    for command in ("stats", "top"):
        ran = cli(command, "--compare", "this", "month", "to", "date", "--format", "csv", "2024-06")
        assert (ran.code, f"compared with {date.today():%Y-%m}-01" in ran.err) == (0, True)


#: Commands for which the service has no operation.
NOT_IN_API = [
    *(("urls", word) for word in ("create", "add", "delete", "rm")),
    *(("tags", word) for word in ("rename", "update", "delete")),
]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("stats", "last-month", "--country", "GB"), "slashtag stats country"),
        (("stats", "last-month", "--group-by", "day"), "--by"),
        (("top", "last-month", "--until", "today"), ".."),
        (("stats", "last-month", "--format", "excel"), ".xlsx"),
        (("report", "last-month", "--accent"), "quotes"),
        (("campaigns",), "slashtag tags list"),
        (("stats", "last-month", "newsletter"), "--tag newsletter"),
        (("top", "newsletter", "last", "month"), "--tag newsletter"),
        (("stats", "newsletter", "last", "month"), "--tag newsletter"),
        (("stats", "last", "month", "newsletter"), "--tag newsletter"),
        (("top", "last", "month", "by", "tag"), "last month --by tag"),
        (("stats", "last", "month", "vs", "june", "2024"), "last month --compare june 2024"),
        (("top", "10", "last", "month"), "--limit 10"),
        (("stats", "last-month", "--by", "countries"), "'country'"),
        (("stats", "last-month", "--by", "link"), "slashtag top"),
        (("urls", "update", "a", "https://www.example/"), "--destination"),
        (("stats", "last-month", "--compare", "last-month"), "--compare previous"),
        (("stats", "2024-06-03..2024-06-09", "--compare", "the", "month", "before"), "--compare previous"),
        *(((*words, "x"), "dashboard") for words in NOT_IN_API),
        (("urls", "update", "a", "--tag", "x"), "dashboard"),
        (("urls", "update", "a", "--tags=x"), "dashboard"),
        (("create", "x"), "dashboard"),
        (("tags", "add", "x"), "tags create"),
        (("urls", "edit", "x"), "urls update"),
        (("urls", "list", "--no-clicks", "last-month"), "slashtag top last-month --no-clicks"),
        (("urls", "list", "--no-clicks", "june", "2024"), "slashtag top june 2024 --no-clicks"),
        (("top", "last-month", "--with-zero"), "--no-clicks"),
        (("top", "last-month", "--by", "idle"), "--no-clicks"),
        (("top", "last-month", "--no-clicks", "--by", "tag"), "--by tag"),
        (("top", "last-month", "--untagged", "--tag", "x"), "only one"),
    ],
)
def test_other_words_lead_to_the_right_ones(
    cli: Cli, box: Sandbox, arguments: tuple[str, ...], says: str
) -> None:
    ran = cli(*arguments)
    assert (ran.code, says in ran.error) == (2, True)
    assert not box.requests


def test_links_that_were_never_clicked_are_listed(cli: Cli, own: Sandbox) -> None:
    clicked = {url.slashtag for url in own.truth.urls() if url.hits}
    own.add_url("unseen")
    listed = {row["slashtag"] for row in objects(cli("urls", "list", "--no-clicks").out)}
    assert listed == {url.slashtag for url in own.truth.urls()} - clicked


def test_a_slashtag_that_a_link_with_clicks_has_too_is_noted_of_one_that_was_never_clicked(
    cli: Cli, own: Sandbox
) -> None:
    clicked = own.add_url("sale")
    own.add_click(clicked, "2024-06-05T12:00:00")
    assert cli("urls", "list", "--no-clicks").lines == []
    own.add_url("sale", domain_id=1)
    for order in ("date", "-date"):
        ran = cli("urls", "list", "--no-clicks", "--orderby", order)
        assert len(ran.lines) == 1
        assert ran.code == 0
        assert "sale" in {row["slashtag"] for row in objects(ran.out)}
    assert cli("urls", "list", "--search", "sale").lines == []


def test_tags_list_prints_every_tag(cli: Cli, box: Sandbox) -> None:
    names = [tag.name for tag in box.truth.tags()]
    assert [tag["name"] for tag in objects(cli("tags", "list").out)] == names
    drawn = cli("tags", "list", "--format", "table").out
    assert all(name in drawn for name in names)


@pytest.mark.unmeasured
@pytest.mark.parametrize("zone", [None, "+05:30", "-08:00", ZoneInfo("America/New_York")])
def test_stats_range_counts_what_is_true(cli: Cli, box: Sandbox, zone: Any) -> None:
    options = ["--timezone", str(zone)] if zone else []
    ran = cli("stats", "range", "2024-02-01", "2024-12-05", "--all", *options)
    counts: dict[str, dict[str, int]] = {}
    for row in objects(ran.out):
        counts.setdefault(row["dimension"], {})[row["label"]] = row["clicks"]
    truth = box.truth.range("2024-02-01", "2024-12-05", timezone=zone)
    assert ran.code == 0
    assert counts["total"] == {"": truth.total_clicks}
    assert counts["day"] == {str(day): n for day, n in truth.clicks.items()}
    for name in ("device", "browser", "platform", "country", "referrer"):
        assert counts[name] == getattr(truth, name)
    told = f"2024-02-01 to 2024-12-05 ({parse_zone(zone)})"
    assert ran.err.startswith(f"{told}: {truth.total_clicks:,} clicks; ")


@pytest.mark.unmeasured
def test_links_are_selected_by_keys_file_stdin_and_tag(
    cli: Cli, box: Sandbox, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [url.slashtag for url in sorted(box.truth.urls(), key=lambda url: -url.hits)[:2]]
    of_keys = box.truth.range("2022-01-01", "2025-12-31", keys=keys).total_clicks

    def total(*selection: str) -> int:
        return int(objects(cli("stats", "range", "2022-01-01", "2025-12-31", *selection).out)[0]["clicks"])

    file = tmp_path / "keys.txt"
    file.write_text("\r\n".join(["", *keys, ""]), "utf-8")
    assert total("--keys", ",".join(keys)) == of_keys
    assert total("--keys-file", str(file)) == of_keys
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\n".join(keys).encode())))
    assert total("--keys-file", "-") == of_keys
    tags = [tag.name for tag in box.truth.tags()][:2]
    each = [box.truth.range("2022-01-01", "2025-12-31", tag=tag).total_clicks for tag in tags]
    assert total("--tag", tags[0]) == each[0]
    assert total("--tag", tags[0], "--tag", tags[1]) == sum(each)


@pytest.mark.parametrize("limit", [(), ("--limit", "7")])
def test_a_listing_into_a_file_prints_a_summary(cli: Cli, tmp_path: Path, limit: tuple[str, ...]) -> None:
    path = tmp_path / "links.csv"
    ran = cli("urls", "list", "-o", str(path), *limit)
    assert len(path.read_text("utf-8").splitlines()) == 1 + (7 if limit else 130)
    assert ran.out == ""
    assert f"{7 if limit else 130} rows to {path}" in ran.err
    assert cli("urls", "list", "-q", "-o", str(path)).err == ""


def test_an_installed_uvloop_is_used_and_is_not_needed(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("uvloop")
    expected = cli("tags", "list").out
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert cli("tags", "list").out == expected


@pytest.mark.parametrize(
    ("answer", "by", "told", "code"),
    [
        (FIVE, "", 1, 0),
        (FIVE | {"days_complete": False}, "", 2, 3),
        (FIVE | {"days_complete": False}, "device", 2, 0),
        (FIVE | {"reconciles": False}, "device", 2, 3),
        (FIVE | {"days_complete": False, "reconciles": False}, "", 3, 3),
        (FIVE | {"device": {"Mobile": 4}}, "", 2, 3),
        (FIVE | {"device": {"Mobile": 4}}, "device", 2, 3),
        (FIVE | {"device": {"Mobile": 4}}, "country", 1, 0),
        ({"total_clicks": 5}, "", 2, 0),
        ({"total_clicks": 5}, "device", 2, 3),
        ({"total_clicks": 5, "device": {"Mobile": 4}}, "", 3, 3),
    ],
)
def test_what_is_not_exact_is_told(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any], by: str, told: int, code: int
) -> None:
    async def collect(*_: object, **__: object) -> RangeStats:
        return RangeStats(**answer)

    monkeypatch.setattr(Stats, "collect", collect)
    ran = cli("stats", "range", "2024-01-01", "2024-03-01", "--all", *(["--by", by] if by else []))
    assert (len(ran.err.splitlines()), ran.code) == (told, code)


@pytest.mark.unmeasured
def test_two_listings_are_compared(cli: Cli, own: Sandbox, tmp_path: Path) -> None:
    old, new = tmp_path / "old.csv", tmp_path / "new.xlsx"
    cli("urls", "list", "-o", str(old))
    cli("urls", "update", "a0", "--destination", "https://www.example/new")
    own.add_url("late")
    cli("urls", "list", "-o", str(new))
    ran = cli("diff", str(old), str(new))
    assert ran.err == "1 added, 0 gone, 1 changed\n"
    changed, added = objects(ran.out)
    assert (changed["column"], changed["new"], added["change"]) == (
        "destination",
        "https://www.example/new",
        "added",
    )
    assert cli("diff", str(old), str(tmp_path / "no such file.csv")).code == 2


def test_the_program_says_its_version_or_which_extra_it_lacks(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli("--version").out == f"slashtag {__version__}\n"
    monkeypatch.setattr("slashtag.cli.find_spec", lambda name: None)
    ran = cli("--version")
    assert (ran.code, ran.error) == (1, 'The command line needs its extra: pip install "slashtag[cli]"')

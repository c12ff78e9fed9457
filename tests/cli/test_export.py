"""What `slashtag export` writes, held against what is true of the account, and how it ends."""

from __future__ import annotations

import csv
import io
import re
from datetime import UTC, date, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from slashtag.sandbox import Fault, Sandbox

from .conftest import Cli, failing, names, objects, one_more_link

SPAN = ("2024-01-01", "2024-04-30")


def days(box: Sandbox, *span: str) -> dict[tuple[str, str], int]:
    """Give the clicks of every link and day, zeros too."""
    start, end = map(date.fromisoformat, span)
    every = [str(start + timedelta(n)) for n in range((end - start).days + 1)]
    return {
        (key, day): true.clicks.get(date.fromisoformat(day), 0)
        for key, true in box.truth.per_key(*span).items()
        for day in every
    }


def test_without_a_file_rows_go_to_stdout(cli: Cli, box: Sandbox) -> None:
    expected = [tag.name for tag in box.truth.tags()]
    assert [tag["name"] for tag in objects(cli("export", "tags").out)] == expected
    ran = cli("export", "tags", "--format", "csv")
    assert [row["name"] for row in csv.DictReader(io.StringIO(ran.out))] == expected
    assert f"{len(expected)} rows to stdout; " in ran.err


@pytest.mark.unmeasured
def test_clicks_by_tag_and_by_dimension(cli: Cli, box: Sandbox) -> None:
    tags = [tag.name for tag in box.truth.tags()]
    rows = objects(cli("export", "clicks", "..".join(SPAN), "--by", "tag").out)
    assert list(dict.fromkeys(row["tag"] for row in rows)) == [*tags, "no tag"]
    assert sum(row["clicks"] for row in rows) == box.truth.range(*SPAN).total_clicks
    for tag in tags[:2]:
        total = sum(row["clicks"] for row in rows if row["tag"] == tag)
        assert total == box.truth.range(*SPAN, tag=tag).total_clicks
    rows = objects(
        cli("export", "clicks", "..".join(SPAN), "--tag", tags[0], "--by", "tag", "--dimensions").out
    )
    truth = box.truth.range(*SPAN, tag=tags[0])
    assert {row["label"]: row["clicks"] for row in rows if row["dimension"] == "country"} == truth.country
    assert {(row["window_start"], row["window_end"]) for row in rows} == {SPAN}
    (one, *_) = objects(cli("export", "clicks", "..".join(SPAN), "--tag", tags[0], "--dimensions").out)
    assert "slashtag" in one


@pytest.mark.unmeasured
def test_slashtags_that_other_links_share_are_told(cli: Cli, own: Sandbox, tmp_path: Path) -> None:
    own.add_tag("t")
    for slashtag, tag, domain in (("a0", "t", 1), ("x", "t", 1), ("x", "t", 2), ("y", "t", 1)):
        own.add_url(slashtag, tag=tag, domain_id=domain)
    command = ("export", "clicks", "2024-01-01..2024-01-02")
    both = "2 slashtags that several links share"
    assert both in cli(*command, "--tag", "t").err
    assert both in cli(*command, "--tag", "t", "-o", str(tmp_path / "c.csv")).err
    assert both in cli(*command).err
    assert "several links" not in cli(*command, "--tag", "t", "--by", "tag").err
    assert "several links" not in cli(*command, "--tag", "t", "--quiet").err
    own.remove_url("x")
    assert "1 slashtag that several links share" in cli(*command).err


# --- failures --------------------------------------------------------------------------------------------


@pytest.mark.unmeasured
def test_links_that_fail_are_told_and_left_out(cli: Cli, box: Sandbox, tmp_path: Path) -> None:
    command = ("export", "clicks", "..".join(SPAN), "-o", str(tmp_path / "c.jsonl"))
    with one_more_link(box, "a,b"):
        ran = cli(*command)
    assert ran.code == 3
    (failure,) = (line for line in ran.lines if line.startswith("failed: "))
    assert failure.startswith("failed: slashtag 'a,b': ")
    rows = objects((tmp_path / "c.jsonl").read_text("utf-8"))
    assert {(row["slashtag"], row["date"]): row["clicks"] for row in rows} == days(box, *SPAN)
    assert cli(*command).code == 0
    assert names(tmp_path) == ["c.jsonl"]


def popular(box: Sandbox) -> list[str]:
    """Slashtags with clicks in January, the most first; others are answered together by one request."""
    clicks = {key: true.total_clicks for key, true in box.truth.per_key(*JANUARY).items()}
    return sorted((key for key in clicks if clicks[key]), key=lambda key: -clicks[key])


def replayed_and_sent(err: str) -> tuple[int, int]:
    """Requests that the journal answered and those that were sent, as the summary on stderr has them."""
    found = re.search(r"(?:([\d,]+) replayed, )?([\d,]+) requests?, \d+ times? 429", err)
    assert found is not None
    replayed, sent = (int((number or "0").replace(",", "")) for number in found.groups())
    return replayed, sent


@pytest.mark.parametrize("command", ["urls list", "export urls"])
def test_what_only_helps_may_fail(cli: Cli, box: Sandbox, command: str) -> None:
    links = box.truth.urls()
    with failing(box, Fault(kind="500", path="/api/v1/tags")):
        ran = cli(*command.split())
    assert ran.code == 0, ran.err
    assert ran.err.count("left out, as the request failed") == 1
    assert [row["tag_name"] for row in objects(ran.out)] == [None] * len(links)


JANUARY = ("2024-01-01", "2024-01-31")
KEPT = "what an earlier run wrote"


@pytest.mark.usefixtures("quick_retries")
@pytest.mark.parametrize(
    ("kind", "says"),
    [("reset", "check SLASHTAG_BASE_URL"), ("302", "302"), ("400", "400"), ("404", "404")],
)
def test_where_nothing_is_answered_the_file_stays(
    cli: Cli, box: Sandbox, tmp_path: Path, kind: str, says: str
) -> None:
    (tmp_path / "c.csv").write_text(KEPT)
    keys = ",".join(url.slashtag for url in box.truth.urls()[:3])
    with failing(box, Fault(kind=kind, path="/api/v1/stats*")):
        ran = cli("export", "clicks", "..".join(JANUARY), "--keys", keys, "-o", str(tmp_path / "c.csv"))
    assert ran.code == 1
    assert says in ran.lines[-1]
    assert names(tmp_path) == ["c.csv"]
    assert (tmp_path / "c.csv").read_text() == KEPT


# --- the journal -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"my own notes", b"SQLite format 3\0" + b"\0" * 100])
def test_a_file_in_the_place_of_the_journal_is_left_alone(cli: Cli, tmp_path: Path, content: bytes) -> None:
    (tmp_path / ".a.csv.journal").write_bytes(content)
    ran = cli("export", "urls", "-o", str(tmp_path / "a.csv"))
    assert ran.code == 1
    assert ran.error.endswith("remove it to begin anew")
    assert (tmp_path / ".a.csv.journal").read_bytes() == content


def test_quiet_says_nothing_and_verbose_tells_requests(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cli("export", "tags", "-q").err == ""
    assert "debug: " not in cli("export", "tags", "-v").err
    assert "debug: " in cli("export", "tags", "-vv").err
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "tags" in cli("export", "tags").err
    assert cli("export", "tags", "-q").err == ""


@pytest.mark.parametrize(("days", "code"), [(-3, 0), (0.4, 0), (3, 3)])
def test_a_clock_days_behind_the_service_is_told_as_days_may_be_left_out(
    cli: Cli, own: Sandbox, tmp_path: Path, days: float, code: int
) -> None:
    own.headers["Date"] = format_datetime(datetime.now(UTC) + timedelta(days=days), usegmt=True)
    done = cli("export", "clicks", "2024-01-01..2024-01-02", "-o", str(tmp_path / "clicks.csv"))
    assert done.code == code
    assert ("this machine's clock" in done.err) == (code == 3)


def test_the_least_clicks_of_slashtags_that_others_share_are_told(cli: Cli, own: Sandbox) -> None:
    own.add_tag("mail")
    for slashtag in ("x", "y"):
        own.add_click(own.add_url(slashtag, tag="mail"), "2024-06-01T09:00:00", times=2)
        own.add_click(own.add_url(slashtag, domain_id=1), "2024-06-01T09:00:00", times=3)
    ran = cli("export", "clicks", "2024-06", "--tag", "mail")
    assert "incomplete: of 2 slashtags" in ran.err
    assert sum(row["clicks"] for row in objects(ran.out)) <= 4

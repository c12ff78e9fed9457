"""What `slashtag export` and `diff` write, held against what is true of the account, and how they end."""

from __future__ import annotations

from collections import Counter
from datetime import date, timedelta
from pathlib import Path

import pytest

from slashtag.sandbox import Fault, Sandbox
from slashtag.tables import load_table

from .conftest import Cli, failing, names, objects

SPAN = ("2024-01-01", "2024-04-30")
CLICKS = ("export", "clicks", "..".join(SPAN))


def days(box: Sandbox) -> dict[tuple[str, str], int]:
    """Give the clicks of every link and day, zeros too."""
    start, end = map(date.fromisoformat, SPAN)
    every = [start + timedelta(n) for n in range((end - start).days + 1)]
    return {
        (key, str(day)): true.clicks.get(day, 0)
        for key, true in box.truth.per_key(*SPAN).items()
        for day in every
    }


def test_slashtags_that_several_links_share_are_named_once(cli: Cli, own: Sandbox) -> None:
    own.add_tag("t")
    for slashtag, tag, domain in (("a0", "t", 1), ("x", "t", 1), ("x", None, 2), ("y", "t", 1)):
        own.add_click(own.add_url(slashtag, tag=tag, domain_id=domain), "2024-01-01T09:00:00")
    for selected in (("--tag", "t"), ()):
        ran = cli(*CLICKS, *selected)
        assert (ran.code, "a0, x" in ran.err) == ((3, True) if selected else (0, False))
        assert sum(row["clicks"] for row in objects(ran.out) if row["slashtag"] == "x") == 2
    assert cli(*CLICKS, "--tag", "t", "--by", "tag").code == 0


# --- failures --------------------------------------------------------------------------------------------


def test_links_that_cannot_be_requested_are_told_and_left_out(cli: Cli, box: Sandbox, tmp_path: Path) -> None:
    box.add_url("a,b")
    ran = cli(*CLICKS, "-o", str(tmp_path / "c.csv"))
    box.remove_url("a,b")
    assert ran.code == 3
    assert ran.err.count("failed: ") == ran.err.count("failed: slashtag 'a,b': ") == 1
    assert "complete: false, missing: a,b" in ran.err
    # No answer is kept for a run that would get no other one.
    assert names(tmp_path) == ["c.csv"]
    rows = load_table(tmp_path / "c.csv").rows()
    assert {(row["slashtag"], row["date"]): int(row["clicks"]) for _, row in rows} == days(box)


@pytest.mark.parametrize(
    ("command", "path"),
    [
        (("export", "urls"), "/api/v1/tags"),
        ((*CLICKS, "--keys", "no-such"), "/api/v1/urls"),
        (CLICKS, "/api/v1/tags"),
        (CLICKS, "/api/v1/stats*"),
    ],
)
@pytest.mark.parametrize("kind", ["400", "reset"])
@pytest.mark.usefixtures("quick_retries")
def test_a_request_that_fails_ends_it_and_the_file_stays(
    cli: Cli, box: Sandbox, tmp_path: Path, command: tuple[str, ...], path: str, kind: str
) -> None:
    (tmp_path / "c.csv").write_text("what an earlier run wrote")
    with failing(box, Fault(kind=kind, path=path)):
        ran = cli(*command, "-o", str(tmp_path / "c.csv"))
    assert ran.code == 1
    assert names(tmp_path) == ["c.csv"]
    assert (tmp_path / "c.csv").read_text() == "what an earlier run wrote"


# --- going on --------------------------------------------------------------------------------------------


def test_a_run_that_goes_on_is_as_of_one_moment(cli: Cli, own: Sandbox, tmp_path: Path) -> None:
    """What an interrupted run counted holds; clicks and links come all the time."""
    for tag in ("one", "two"):
        own.add_tag(tag)
    for n in range(20):
        link = own.add_url(f"b{n}", tag=("one", "two", None)[n % 3])
        own.add_click(link, f"2024-0{1 + n % 4}-10T09:00:00", times=n + 1)
    command = (*CLICKS, "--by", "tag", "-o", str(tmp_path / "c.jsonl"))
    with failing(own, Fault(kind="302", every=3, path="/api/v1/stats*")):
        assert cli(*command).code in (1, 3)
    # Another account leaves it as it is.
    with pytest.MonkeyPatch.context() as other:
        other.setenv("SLASHTAG_APIKEY", "another-apikey-of-the-26s")
        assert "another account" in cli(*command).err
    assert ".c.jsonl.journal" in names(tmp_path)
    own.add_click(own.add_url("new", tag="one"), "2024-01-20T09:00:00", times=7)
    ran = cli(*command)
    assert (ran.code, " replayed" in ran.err) == (0, True)
    sums, true = Counter[str](), Counter[str]()
    for row in objects((tmp_path / "c.jsonl").read_text("utf-8")):
        sums[row["tag"] or "no tag"] += row["clicks"]
    for tag in ("one", "two"):
        true[tag] = own.truth.range(*SPAN, tag=tag).total_clicks
    true["no tag"] = own.truth.range(*SPAN).total_clicks - true.total()
    assert +sums == +true
    assert names(tmp_path) == ["c.jsonl"]


# --- diff ------------------------------------------------------------------------------------------------


def test_a_month_that_is_counted_again_shows_a_late_click(cli: Cli, own: Sandbox, tmp_path: Path) -> None:
    own.add_tag("spring")
    own.add_click(own.add_url("s", tag="spring"), "2024-01-10T09:00:00", times=5)
    files = [str(tmp_path / name) for name in ("old.xlsx", "new.xlsx")]
    for file in files:
        assert cli("export", "clicks", "2024-01", "--by", "tag", "-o", file).code == 0
        own.add_click("s", "2024-01-10T10:00:00", times=3)
    assert cli("diff", files[0], files[0]).code == 0
    ran = cli("diff", *files)
    (row,) = [row for row in objects(ran.out) if row["change"] == "changed"]
    assert (ran.code, row["key"], row["old"], row["new"]) == (1, "spring, 2024-01-10", 5, 8)
    assert cli("diff", *files, "-o", str(tmp_path / "d.parquet")).code == 1
    assert (tmp_path / "d.parquet").exists()

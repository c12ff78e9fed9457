"""Which links a command is about: looked up, and what is not found is told with exit code 3."""

from __future__ import annotations

from pathlib import Path

import pytest

from slashtag.sandbox import Sandbox

from .conftest import Cli, answer, objects

SPAN = "2024-06"


def clicks(cli: Cli, *arguments: str) -> int:
    ran = cli("stats", SPAN, *arguments)
    assert ran.code == 0, ran.err
    return int(objects(ran.out)[0]["clicks"])


def test_each_way_selects_the_same_links(
    cli: Cli, box: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = sorted(box.truth.urls(), key=lambda url: -url.hits)[:3]
    names = [url.slashtag for url in urls]
    true = box.truth.range("2024-06-01", "2024-06-30", keys=names).total_clicks
    assert true > 0
    assert clicks(cli, "--keys", " , ".join(names)) == true
    assert clicks(cli, "--keys", ",".join(url.short_url for url in urls)) == true
    assert clicks(cli, "--keys", f"{names[0]},{urls[0].short_url},{names[1]},{names[2]},{names[2]}") == true
    file = tmp_path / "keys"
    file.write_text("\n".join(["# ours", *names, "", "# and no more"]), "utf-8")
    assert clicks(cli, "--keys-file", str(file)) == true
    file.write_text("\n".join(["tag;slashtag", *(f"x;{name}" for name in names)]), "utf-8")
    assert clicks(cli, "--keys-file", str(file)) == true


def test_tags_and_the_links_without_one_are_all_links(cli: Cli, box: Sandbox) -> None:
    tags = [word for tag in box.truth.tags() for word in ("--tag", tag.name)]
    assert clicks(cli, *tags) + clicks(cli, "--untagged") == clicks(cli)


@pytest.mark.parametrize(("asked", "told"), [("{0}x", "(did you mean '{0}'?)"), ("{1}", "'{0}': give that")])
def test_what_no_link_has_is_told_and_the_rest_is_counted(
    cli: Cli, box: Sandbox, asked: str, told: str
) -> None:
    url, other = sorted(box.truth.urls(), key=lambda url: -url.hits)[:2]
    key = asked.format(url.slashtag, url.id)
    ran = cli("stats", SPAN, "--keys", f"{key},{other.slashtag}")
    assert (ran.code, told.format(url.slashtag) in ran.err) == (3, True)
    true = box.truth.range("2024-06-01", "2024-06-30", keys=[other.slashtag]).total_clicks
    assert objects(ran.out)[0]["clicks"] == true
    ran = cli("stats", SPAN, "--keys", key)
    assert (ran.code, ran.out) == (3, "")


def test_a_slashtag_that_another_link_has_now_is_told(cli: Cli, box: Sandbox, tmp_path: Path) -> None:
    first, second = box.truth.urls()[:2]
    file = tmp_path / "keys.csv"
    file.write_text(f"id,slashtag\n{first.id},{first.slashtag}\n{first.id},{second.slashtag}\n", "utf-8")
    ran = cli("stats", SPAN, "--keys-file", str(file))
    assert ran.code == 3
    assert len([line for line in ran.lines if line.startswith("moved: ") and second.slashtag in line]) == 1


@pytest.mark.parametrize(
    "arguments", [("--keys", " , "), ("--keys-file", "-"), ("--keys", "a", "--untagged"), ("--tag", "nobody")]
)
def test_a_selection_of_nothing_or_of_two_ways_is_refused(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    answer(monkeypatch)
    assert cli("stats", SPAN, *arguments).code == 2
    assert cli("top", SPAN, *arguments).code == 2

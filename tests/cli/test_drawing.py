"""Tables fit a terminal of any width: whole lines, whole headers, and the columns that there is room for."""

from __future__ import annotations

import pytest

from slashtag.sandbox import Sandbox

from .conftest import Cli, objects


@pytest.mark.unmeasured
@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("kind", ["urls", "tags"])
def test_each_record_is_one_line_of_the_terminal(
    cli: Cli, box: Sandbox, monkeypatch: pytest.MonkeyPatch, kind: str, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    out = cli(kind, "list", "--format", "table").out
    lines = [line for line in out.splitlines() if line.strip()]
    assert len(lines) == 2 + len(box.truth.urls() if kind == "urls" else box.truth.tags())
    assert max(map(len, lines)) <= width
    header = {"short url", "hits", "destination"} if kind == "urls" else {"name", "description"}
    assert all(name in lines[0] for name in header)


@pytest.mark.parametrize("width", [60, 120])
@pytest.mark.parametrize(
    "command",
    [
        ("top", "2024-06"),
        ("stats", "range", "2024-10-27", "--all", "--by", "hour", "--timezone", "Europe/Berlin"),
        ("stats", "country", "US", "2022..2025", "--all"),
        ("stats", "year", "2024", "--all"),
    ],
)
def test_labels_and_numbers_are_whole_and_bars_give_way(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    out = cli(*command, "--format", "table").out
    assert max(map(len, out.splitlines())) <= width
    assert "…" not in out
    # The labels that are summed in one line would dwarf the others.
    assert not any("█" in line for line in out.splitlines() if " others " in line)
    if command[0] == "top":
        assert all(f" {row['slashtag']} " in out for row in objects(cli(*command).out))
    else:
        assert max(line.count("█") for line in out.splitlines()) >= 18


@pytest.mark.parametrize("width", [70, 100, 400])
def test_urls_are_cut_so_that_they_can_be_told_apart(
    cli: Cli, own: Sandbox, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    start = "https://www.example.com/shop/autumn?utm_source=mail&utm_medium=email&utm_content="
    end = f"&x={'y' * 80}"
    for url in own.truth.urls():
        own.remove_url(url.id)
    for n in range(12):
        own.add_url(f"link-{n}", destination=f"{start}{n}-of-12{end}")
    out = cli("urls", "list", "--format", "table").out
    rows = [line.split()[-1] for line in out.splitlines() if "link-" in line]
    assert len({*rows}) == 12
    assert all(row.startswith(start) == (width == 400) for row in rows)
    assert all(f"{n}-of-12" in row for n, row in enumerate(rows))

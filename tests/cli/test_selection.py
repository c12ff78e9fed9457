"""Slashtags that no link has are named, and what is typed or piped is read as it was meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from slashtag.cli.run import SOME_FAILED
from slashtag.sandbox import Sandbox
from tests.support.sandboxes import forget

from .conftest import Cli, Ran, Serve, names, objects, one_more_link

SPAN = ("2022-01-01", "2025-12-31")
RANGE = ("stats", "range", *SPAN)


def total(ran: Ran) -> int:
    return int(objects(ran.out)[0]["clicks"])


@pytest.fixture
def keys(box: Sandbox) -> list[str]:
    """Two slashtags with clicks."""
    return [url.slashtag for url in sorted(box.truth.urls(), key=lambda url: -url.hits)[:2]]


@pytest.fixture
def clicks(box: Sandbox, keys: list[str]) -> int:
    return box.truth.range(*SPAN, keys=keys).total_clicks


def test_where_no_slashtag_exists_nothing_is_counted_or_replaced(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "clicks.csv"
    file.write_text("kept")
    for command in (RANGE, ("export", "clicks", *SPAN, "-o", str(file))):
        ran = cli(*command, "--keys", "nosuch")
        assert ran.code == SOME_FAILED
        assert "'nosuch'" in ran.error
    assert file.read_text() == "kept"
    assert names(tmp_path) == ["clicks.csv"]


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    "command",
    [
        ("urls", "list"),
        RANGE,
        (*RANGE, "--by", "tag"),
        ("top", "2024"),
        ("export", "clicks", *SPAN),
        ("export", "clicks", *SPAN, "--by", "tag"),
        ("report", *SPAN, "-o", "report.html"),
    ],
)
def test_a_tag_that_does_not_exist_is_wrong_usage_of_every_command(
    cli: Cli, command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = cli(*command, "--tag", "nobody has it")
    assert (ran.code, ran.out) == (2, "")
    assert " tag " in ran.err.lower()
    assert names(tmp_path) == []


def test_unknown_slashtags_are_counted_on_request(cli: Cli, box: Sandbox) -> None:
    ran = cli(*RANGE, "--keys", "nosuch", "--no-check")
    assert (ran.code, total(ran)) == (0, 0)
    assert {arrival.path for arrival in box.requests} == {"/api/v1/stats"}


@pytest.mark.parametrize("command", [RANGE, ("stats", "country", "DE", *SPAN), ("export", "clicks", *SPAN)])
def test_a_slashtag_that_no_link_has_is_left_out_and_named(
    cli: Cli, box: Sandbox, keys: list[str], command: tuple[str, ...]
) -> None:
    slip, link = f"{keys[1]}x", str(box.truth.urls()[0].id)
    ran = cli(*command, "--keys", f"{keys[0]},{slip},{link}", "--quiet")
    alone = cli(*command, "--keys", keys[0])
    assert (ran.code, alone.code, ran.out) == (SOME_FAILED, 0, alone.out)
    start = "left out: no link has the slashtag"
    # A slip of the finger is asked about.
    asked, of_id = ran.lines
    assert asked == f"{start} {slip!r} (did you mean {keys[1]!r}?)"
    # The id of a link is told apart from a slip.
    assert of_id.startswith(f"{start} {link!r}")
    assert f"id of the link with the slashtag {box.truth.urls()[0].slashtag!r}" in of_id
    assert "left out" not in alone.err


def test_ids_of_links_in_a_file_are_told_with_their_slashtags(
    cli: Cli, box: Sandbox, keys: list[str], tmp_path: Path
) -> None:
    urls = box.truth.urls()
    file = tmp_path / "ids.txt"
    file.write_text("\n".join([*(str(url.id) for url in urls[:10]), "999", keys[0], "٣"]))
    ran = cli(*RANGE, "--keys-file", str(file), "--quiet")
    assert ran.code == SOME_FAILED
    told = dict(zip(urls[:10], ran.lines, strict=False))
    assert all(f"{str(url.id)!r}" in line and repr(url.slashtag) in line for url, line in told.items())
    assert next(line for line in ran.lines if "id of the link" not in line).endswith("'999'")
    assert len(ran.lines) == 12


@pytest.mark.unmeasured
@pytest.mark.parametrize("count", [1_000, 1_001, 2_500])
def test_slashtags_are_looked_up_however_many_they_are(
    cli: Cli, keys: list[str], clicks: int, tmp_path: Path, count: int
) -> None:
    file = tmp_path / "keys"
    file.write_text("\n".join([*keys[:2], *(f"no-such-{n}" for n in range(count))]))
    ran = cli(*RANGE, "--keys-file", str(file), "-q")
    assert (ran.code, total(ran), len(ran.lines)) == (SOME_FAILED, clicks, count)


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    "command", [RANGE, ("top", "2024-03"), ("export", "clicks", "2024-03-01", "2024-03-31")]
)
def test_a_short_url_whose_slashtag_another_link_has_is_said(
    cli: Cli, serve: Serve, command: tuple[str, ...]
) -> None:
    with serve(urls=0, clicks=0) as box:
        ids = [box.add_url("promo", domain_id=n, created_at="2024-01-01T00:00:00") for n in (1, 2)]
        other = box.add_url("talk", domain_id=1, created_at="2024-01-01T00:00:00")
        for link in (*ids, other):
            box.add_click(link, "2024-03-05T10:00:00")
        first, second, third = [url.short_url or "" for url in box.truth.urls()]
        ran = cli(*command, "--keys", first, "-q")
        assert ran.code == SOME_FAILED
        assert second in ran.err
        # Not where it is asked for by the slashtag, or where both are meant.
        for both in ("promo", f"{first},{second}"):
            assert cli(*command, "--keys", both, "-q").lines == []
        assert cli(*command, "--keys", third, "-q").code == 0


@pytest.mark.unmeasured
def test_any_number_is_looked_up_for_a_file_that_may_be_continued(
    cli: Cli, box: Sandbox, tmp_path: Path
) -> None:
    keys, target = tmp_path / "keys", tmp_path / "clicks.csv"
    known = [url.slashtag for url in box.truth.urls()][:20]
    keys.write_text("\n".join([*known, *(f"no-such-{n}" for n in range(1_001))]))
    export = "export", "clicks", "2024-01-01", "2024-01-31", "--keys-file", str(keys), "-o", str(target)
    ran = cli(*export)
    assert (ran.code, sum("no link has the slashtag" in line for line in ran.lines)) == (3, 1_001)
    assert len(target.read_text().splitlines()) == 1 + 31 * len({*known})
    forget(box)
    assert cli(*export, "--no-check").code == 0
    assert "/api/v1/urls" not in {arrival.path for arrival in box.requests}


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    "header", [None, "", "slashtag\n", "# exported yesterday\nSlashtag \n", "\ufeffslashtag\n"]
)
def test_blanks_comments_and_a_header_are_skipped(
    cli: Cli, keys: list[str], clicks: int, tmp_path: Path, header: str | None
) -> None:
    file = tmp_path / "keys.txt"
    file.write_text(f"{header}{keys[0]}\t\r\n\n  {keys[1]}\n", "utf-8")
    given = ("--keys", f" {keys[0]} , {keys[1]},, ") if header is None else ("--keys-file", str(file))
    ran = cli(*RANGE, *given)
    assert (ran.code, total(ran)) == (0, clicks)


def test_a_listing_names_the_slashtags_of_its_column(
    cli: Cli, keys: list[str], clicks: int, tmp_path: Path
) -> None:
    file = tmp_path / "links.csv"
    file.write_text(f'id,slashtag,destination\n1,{keys[0]},"https://a.example/1,2"\n2,{keys[1]},x\n', "utf-8")
    ran = cli(*RANGE, "--keys-file", str(file))
    assert (ran.code, total(ran)) == (0, clicks)


def test_short_urls_of_the_account_stand_for_their_slashtags(
    cli: Cli, box: Sandbox, keys: list[str], clicks: int
) -> None:
    urls = {url.slashtag: url.short_url for url in box.truth.urls()}
    scheme, address = urls[keys[1]].split("://")
    ran = cli(*RANGE, "--keys", f"{urls[keys[0]]},{scheme.upper()}://{address}/")
    assert (ran.code, total(ran)) == (0, clicks)
    assert cli(*RANGE, "--keys", "https://elsewhere.example/x").code == SOME_FAILED


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"a,b\n", "'a,b'"),
        (b"https://go.example/x\n", "short URL"),
        (b"\xef\xbb\xbf\r\n \n", "holds no slashtags"),
        (b"fine\nfine too\nnot \xff\xfe\xfa\n", "UTF-8"),
    ],
)
def test_slashtags_that_cannot_be_asked_for_are_refused_before_anything_is_sent(
    cli: Cli, box: Sandbox, tmp_path: Path, content: bytes, says: str
) -> None:
    (tmp_path / "keys").write_bytes(content)
    (tmp_path / "c.csv").write_text("of an earlier run")
    for command in (RANGE, ("export", "clicks", *SPAN, "-o", str(tmp_path / "c.csv"))):
        ran = cli(*command, "--keys-file", str(tmp_path / "keys"), "--no-check")
        assert (ran.code, len(box.requests)) == (2, 0)
        assert says in ran.error
        assert str(tmp_path / "keys") in ran.error
    assert (tmp_path / "c.csv").read_text() == "of an earlier run"


@pytest.mark.unmeasured
def test_one_slashtag_with_a_comma_does_not_stop_all(cli: Cli, box: Sandbox) -> None:
    counted = cli(*RANGE, "--all")
    with one_more_link(box, "a,b"):
        ran = cli(*RANGE, "--all")
    assert (ran.code, ran.out) == (SOME_FAILED, counted.out)
    assert "'a,b'" in ran.err

"""Services that answer about other days: once is mended, always is printed and not exit code 0."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from importlib import import_module
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal

from tests.resources.accounts import page_of
from tests.support import wire

from .conftest import Cli

SPAN = ("2024-03-01", "2024-04-20")
DAYS = 51
LABELS = ("device", "browser", "platform", "country", "referrer")


class OneClickADay:
    """A service of three links and one click of each a day; some windows get the answer of earlier days."""

    def __init__(self, wrong: Callable[[int], bool]) -> None:
        self._wrong = wrong
        self._asked = 0

    def __call__(self, request: wire.Request) -> wire.Answer:
        if request.path.endswith("/tags"):
            return page_of(1, [], 500)
        if request.path.endswith("/urls"):
            return page_of(int(request.query["page"][0]), range(3), 500)
        if "date_range" not in request.query:
            return wire.envelope(404, "Not found.", [])
        first, last = (date.fromisoformat(end[:10]) for end in request.query["date_range"][0].split(","))
        self._asked += 1
        if self._wrong(self._asked):
            first, last = first - timedelta(days=20), last - timedelta(days=20)
        days = [first + timedelta(days=n) for n in range((last - first).days + 1)]
        keys = len(request.query["url_keys"][0].split(","))
        total = len(days) * keys
        labels: dict[str, object] = {name: {"x": total} for name in LABELS}
        return wire.ok(labels | {"total_clicks": total, "clicks": dict.fromkeys(map(str, days), keys)})


@contextmanager
def serving(monkeypatch: pytest.MonkeyPatch, wrong: Callable[[int], bool]) -> Iterator[None]:
    with start_blocking_portal() as portal:
        server = wire.Wire(OneClickADay(wrong))
        with portal.wrap_async_context_manager(server):
            monkeypatch.setenv("SLASHTAG_BASE_URL", server.base_url)
            yield


COMMANDS = [
    ("export", "clicks", *SPAN, "--all", "-o", "clicks.csv"),
    ("stats", "range", *SPAN, "--all", "--by", "day", "-o", "clicks.csv"),
    ("stats", "range", *SPAN, "--all", "--by", "device"),
    ("top", *SPAN),
    ("report", *SPAN, "-o", "report.html"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("always", [False, True])
def test_answers_about_other_days(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: tuple[str, ...], always: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    with serving(monkeypatch, lambda n: always or n == 2):
        ran = cli(*command)
    assert ran.code == (3 if always else 0)
    assert ("inconsistent" in ran.err) == always
    if "clicks.csv" in command:
        lines = (tmp_path / "clicks.csv").read_text("utf-8").splitlines()
        days = {cell for line in lines for cell in line.split(",") if cell.startswith("2024-")}
        assert (min(days), max(days), len(days)) == (*SPAN, DAYS)
        if not always and command[0] == "export":
            assert {line.rpartition(",")[2] for line in lines[1:]} == {"1"}


@pytest.mark.unmeasured
def test_what_contradicts_itself_is_requested_again_by_the_next_sync(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if not os.environ.get("CI"):
        pytest.importorskip("dlt")
    path = tmp_path / "clicks.duckdb"
    sync = ("sync", str(path), "--since", (datetime.now(UTC) - timedelta(days=80)).date().isoformat())
    wrong = True
    with serving(monkeypatch, lambda _: wrong):
        assert cli(*sync).code == 3
        wrong = False
        assert cli(*sync).code == 0
    with import_module("duckdb").connect(str(path)) as file:
        found = file.execute("SELECT min(clicks), max(clicks), count(*) FROM slashtag.clicks_daily")
        assert found.fetchone() == (1, 1, 3 * 81)

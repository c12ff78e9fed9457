"""Services that answer about other days: once is mended, always is printed and not exit code 0."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal

from tests.resources.accounts import page_of
from tests.support import wire

from .conftest import Cli

SPAN = ("2024-03-01", "2024-04-20")
DAYS = 51


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
        return wire.ok({"total_clicks": len(days) * keys, "clicks": dict.fromkeys(map(str, days), keys)})


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
    cli: Cli,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    command: tuple[str, ...],
    always: bool,
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

"""What a run learnt is kept for the next one; a file that is wrong or missing costs nothing."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path
from time import time
from typing import Any

import msgspec
import pytest

from slashtag import AsyncSession
from slashtag._sending import learned_rate
from slashtag.sandbox import Sandbox

from ..support.sending import APIKEY, connect

ACCOUNT = ("https://links.example/api/v1/", APIKEY)

pytestmark = pytest.mark.skipif(os.name != "posix", reason="other systems have another folder")


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "slashtag" / "rates.json"


def test_a_rate_is_kept_by_account(state: Path) -> None:
    learned_rate.save(*ACCOUNT, 41.5)
    learned_rate.save(ACCOUNT[0], "another-key-0123456789", 7.0)
    assert learned_rate.load(*ACCOUNT) == 41.5
    assert learned_rate.load("https://other.example/api/v1/", APIKEY) is None
    assert [file.name for file in state.parent.iterdir()] == [state.name]


def test_the_file_tells_no_account_and_is_read_by_its_owner_only(state: Path) -> None:
    learned_rate.save(*ACCOUNT, 41.5)
    text = state.read_text()
    assert APIKEY not in text
    assert "links.example" not in text
    assert stat.S_IMODE(state.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[" * 100_000,
        b"\xff\xfe",
        b'{"salt": 1}',
        b'{"salt": "a", "rates": {"b": {"rate": "x", "at": 1}}}',
    ],
)
def test_a_damaged_file_is_no_rate_and_is_replaced(state: Path, content: bytes) -> None:
    state.parent.mkdir(parents=True)
    state.write_bytes(content)
    assert learned_rate.load(*ACCOUNT) is None
    learned_rate.save(*ACCOUNT, 3.0)
    assert learned_rate.load(*ACCOUNT) == 3.0


@pytest.mark.parametrize(
    ("rate", "age"), [(5.0, 86_401.0), (5.0, -3_600.0), (0.0, 1.0), (-5.0, 1.0), (1e999, 1.0)]
)
def test_a_rate_that_is_old_or_impossible_is_none_and_is_dropped(
    state: Path, rate: float, age: float
) -> None:
    learned_rate.save(*ACCOUNT, 5.0)
    found: dict[str, Any] = msgspec.json.decode(state.read_bytes())
    for entry in found["rates"].values():
        entry |= {"rate": rate if rate < 1e308 else 1e308 * 10, "at": time() - age}
    state.write_bytes(msgspec.json.encode(found).replace(b"null", b"1e999"))
    assert learned_rate.load(*ACCOUNT) is None


def test_where_nothing_can_be_written_nothing_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    learned_rate.save(*ACCOUNT, 5.0)
    assert learned_rate.load(*ACCOUNT) is None


async def throttled(session: AsyncSession, requests: int) -> tuple[int, float | None]:
    """Send requests; return how often they were answered 429, and the rate that was learnt."""
    async with session:
        await asyncio.gather(*(session.urls.page(n) for n in range(1, requests + 1)))
        return session.metrics.throttled, session.metrics.learned_rate


async def test_a_second_run_begins_at_the_rate_of_the_first(state: Path, tmp_path: Path) -> None:
    async with Sandbox(urls=3, clicks=0, rate=60, burst=5, retry_after=None) as box:
        first, learnt = await throttled(connect(box)._with_learned_rate(), 240)
        assert learnt is not None
        assert learned_rate.load(f"{box.base_url.rstrip('/')}/api/v1/", box.apikey) is not None
        again, _ = await throttled(connect(box, journal=tmp_path / "job.journal"), 90)
        assert again <= first / 2


async def test_a_kept_rate_does_not_sink_from_run_to_run(state: Path, tmp_path: Path) -> None:
    async with Sandbox(urls=3, clicks=0) as box:
        account = f"{box.base_url.rstrip('/')}/api/v1/", box.apikey
        learned_rate.save(*account, 500.0)
        for n in range(3):
            met, learnt = await throttled(connect(box, journal=tmp_path / f"{n}.journal"), 3)
            assert (met, learnt) == (0, pytest.approx(500 * learned_rate.CAUTION))
        assert learned_rate.load(*account) == 500.0


async def test_a_given_rate_is_neither_replaced_nor_kept(state: Path, tmp_path: Path) -> None:
    async with Sandbox(urls=3, clicks=0) as box:
        _, rate = await throttled(connect(box, rate=30, journal=tmp_path / "job.journal"), 3)
    assert rate == 30
    assert not state.exists()


async def test_a_session_without_a_journal_keeps_nothing(state: Path) -> None:
    async with Sandbox(urls=3, clicks=0, rate=60, burst=5, retry_after=None) as box:
        await throttled(connect(box), 90)
    assert not state.exists()

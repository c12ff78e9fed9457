"""Start, stop, threads and files."""

import asyncio
import socket
import sqlite3
import threading
import urllib.request
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from slashtag.sandbox import Fault, Sandbox

from .serve import calling, serving


def small() -> Sandbox:
    return Sandbox(urls=20, clicks=100, tags=3)


def get(box: Sandbox, path: str) -> int:
    request = urllib.request.Request(box.base_url + path)
    request.add_header("apikey", box.apikey)
    request.add_header("apisecret", box.apisecret)
    with urllib.request.urlopen(request) as response:
        return int(response.status)


def test_with_runs_it_in_a_thread_that_ends() -> None:
    before = threading.active_count()
    with small() as box:
        assert get(box, "/api/v1/urls") == 200
        with pytest.raises(OSError), Sandbox(urls=1, clicks=0, port=box.port):  # noqa: PT011
            pass
    assert threading.active_count() == before


async def test_async_with_runs_it_in_this_loop_and_leaves_nothing() -> None:
    threads, tasks, box = threading.active_count(), asyncio.all_tasks(), small()
    for _ in range(2):
        async with box, calling(box) as call:
            assert (await call.get("urls")).status == 200
            with pytest.raises(RuntimeError, match="already"):
                await box.start()
        await box.stop()
    assert (threading.active_count(), asyncio.all_tasks()) == (threads, tasks)


def test_nothing_is_known_of_it_before_it_runs() -> None:
    box = small()
    for name in ("port", "base_url", "store", "truth"):
        with pytest.raises(RuntimeError, match="not running"):
            getattr(box, name)


@pytest.mark.parametrize("options", [{"latency": 3600}, {"faults": [Fault(kind="stall", seconds=3600)]}])
async def test_it_ends_while_requests_wait(options: dict[str, Any]) -> None:
    async with serving(**options) as call:
        waiting = [asyncio.create_task(call("GET", "/api/v1/tags")) for _ in range(3)]
        await call.arrivals(3)
        await call.box.stop()
        for error in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(error, aiohttp.ClientError)
        assert [arrival.status for arrival in call.box.requests] == [None] * 3


@pytest.mark.parametrize("turns", range(8))
async def test_it_ends_while_a_connection_is_being_accepted(turns: int) -> None:
    box = small()
    await box.start()
    with socket.create_connection(("127.0.0.1", box.port), timeout=10) as caller:
        for _ in range(turns):
            await asyncio.sleep(0)
        await box.stop()
        with suppress(ConnectionResetError):
            assert caller.recv(1) == b""


def test_a_file_keeps_the_account(tmp_path: Path) -> None:
    path = tmp_path / "account.sqlite"
    with Sandbox(urls=20, clicks=50, tags=2, store=path) as box:
        box.add_url("mine")
        box.add_click("mine", "2024-01-01", times=7)
        before = box.truth.urls(), box.truth.tags(), box.truth.alltime()
    with Sandbox(urls=99, clicks=99, store=path) as box:
        assert (box.truth.urls(), box.truth.tags(), box.truth.alltime()) == before
        box.add_click("mine", "2024-01-01")
        assert box.truth.alltime(["mine"]).clicks_unique == 8
    path.unlink()


def test_a_file_that_is_no_account_is_refused(tmp_path: Path) -> None:
    text, other = tmp_path / "text", tmp_path / "other"
    text.write_text("no database, however long it may be" * 50)
    with closing(sqlite3.connect(other)) as db:
        db.execute("CREATE TABLE t (x)")
    for path in (text, other, tmp_path / "missing" / "account"):
        with pytest.raises(OSError, match=path.name), Sandbox(urls=5, clicks=5, store=path):
            pass


async def test_a_body_that_arrives_is_recorded() -> None:
    async with serving() as call:
        await call.post(name="x")
        arrival = call.box.requests[0]
        assert (arrival.method, arrival.path, arrival.query) == ("POST", "/api/v1/tags", {})
        assert arrival.body == b'{"name": "x"}'
        await call.get("urls", page=2, orderby="date")
        assert call.box.requests[1].query == {"page": "2", "orderby": "date"}
        assert call.box.requests[1].at >= arrival.at >= 0


def test_links_of_unknown_tags_and_domains_are_refused_and_all_once_it_has_stopped() -> None:
    with small() as box:
        for unknown in ({"tag": "nobody has it"}, {"domain_id": 9}):
            with pytest.raises(LookupError):
                box.add_url("new", **unknown)
        with pytest.raises(LookupError):
            box.remove_url("nobody has it")
    with pytest.raises(RuntimeError, match="not running"):
        box.add_tag("late")

"""Start, stop, threads and files."""

import asyncio
import socket
import sqlite3
import threading
import urllib.request
from contextlib import closing, suppress
from pathlib import Path
from time import perf_counter

import aiohttp
import pytest

from slashtag.sandbox import Sandbox
from slashtag.sandbox.store import Store

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
        assert box.requests[0].path == "/api/v1/urls"
        assert box.base_url == f"http://127.0.0.1:{box.port}"
    assert threading.active_count() == before


async def test_async_with_runs_it_in_this_loop_and_leaves_nothing() -> None:
    threads, tasks = threading.active_count(), asyncio.all_tasks()
    async with small() as box, calling(box) as call:
        assert (await call.get("urls")).status == 200
    assert threading.active_count() == threads
    assert asyncio.all_tasks() == tasks


async def test_it_may_be_stopped_twice_and_started_again() -> None:
    box = small()
    await box.stop()
    for _ in range(2):
        await box.start()
        async with calling(box) as call:
            assert (await call.get("urls")).status == 200
        await box.stop()
        await box.stop()
    assert len(box.requests) == 2


async def test_it_runs_once_at_a_time() -> None:
    async with small() as box:
        with pytest.raises(RuntimeError, match="already"):
            await box.start()
        with pytest.raises(RuntimeError, match="already"):
            box.__enter__()


def test_nothing_is_known_of_it_before_it_runs() -> None:
    box = small()
    for name in ("port", "base_url", "store", "truth"):
        with pytest.raises(RuntimeError, match="not running"):
            getattr(box, name)


async def test_a_taken_port_is_told_in_either_way_of_running() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError):  # noqa: PT011 - the number differs from system to system
            await Sandbox(urls=1, clicks=0, port=port).start()
        with pytest.raises(OSError), Sandbox(urls=1, clicks=0, port=port):  # noqa: PT011
            pass


async def test_it_ends_while_requests_wait() -> None:
    async with serving(latency=60) as call:
        waiting = [asyncio.create_task(call("GET", "/api/v1/tags")) for _ in range(3)]
        await call.arrivals(3)
        began = perf_counter()
        await call.box.stop()
        assert perf_counter() - began < 10  # of the 60 that it could take
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


async def test_it_ends_while_connections_are_kept_alive() -> None:
    box = small()
    await box.start()
    headers = {"apikey": box.apikey, "apisecret": box.apisecret}
    async with aiohttp.ClientSession(headers=headers) as http:
        async with http.get(box.base_url + "/api/v1/tags") as response:
            await response.read()
        began = perf_counter()
        await box.stop()
        assert perf_counter() - began < 10  # of the 60 that it could take


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


def test_an_account_that_was_not_finished_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Store, "add_clicks", lambda *_: 1 // 0)
    with pytest.raises(ZeroDivisionError), Sandbox(urls=5, clicks=5, store=tmp_path / "half"):
        pass
    monkeypatch.undo()
    with Sandbox(urls=7, clicks=9, store=tmp_path / "half") as box:
        assert (len(box.truth.urls()), box.truth.alltime().clicks_total) == (7, 9)


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

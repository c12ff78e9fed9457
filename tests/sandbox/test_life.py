"""Start, stop, threads, files, and what the account and its requests can be told."""

from __future__ import annotations

import asyncio
import json
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
from tests.support.sending import until

from .serve import TAGS, serving
from .test_openapi import DOCUMENT


def small() -> Sandbox:
    return Sandbox(urls=20, clicks=100, tags=3)


def test_with_runs_it_in_a_thread_that_ends() -> None:
    before = threading.active_count()
    with small() as box:
        assert json.load(urllib.request.urlopen(f"{box.base_url}/openapi.json")) == DOCUMENT
        assert box.requests == []
        with pytest.raises(OSError), Sandbox(urls=1, clicks=0, port=box.port):  # noqa: PT011
            pass
    assert threading.active_count() == before


async def test_async_with_runs_it_in_this_loop_and_leaves_nothing() -> None:
    threads, tasks, box = threading.active_count(), asyncio.all_tasks(), small()
    for _ in range(2):
        async with box, aiohttp.ClientSession() as http, http.get(box.base_url) as response:
            assert response.status == 404
        await box.stop()
    assert (threading.active_count(), asyncio.all_tasks()) == (threads, tasks)


@pytest.mark.parametrize("options", [{"latency": 3600}, {"faults": [Fault(kind="stall", seconds=3600)]}])
async def test_it_ends_while_requests_wait(options: dict[str, Any]) -> None:
    async with serving(**options) as call:
        gone, *waiting = [asyncio.create_task(call("GET", TAGS)) for _ in range(3)]
        await until(lambda: len(call.box.requests) == 3)
        gone.cancel()
        await asyncio.wait([gone])
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
        assert box.truth.alltime(keys=["mine"]).clicks_unique == 8
    path.unlink()


def test_a_file_that_is_no_account_is_refused(tmp_path: Path) -> None:
    text, other = tmp_path / "text", tmp_path / "other"
    text.write_text("no database, however long it may be" * 50)
    with closing(sqlite3.connect(other)) as db:
        db.execute("CREATE TABLE t (x)")
    for path in (text, other, tmp_path / "missing" / "account"):
        with pytest.raises(OSError, match=path.name), Sandbox(urls=5, clicks=5, store=path):
            pass


async def test_what_arrives_is_recorded() -> None:
    async with serving() as call:
        await call.post(name="x")
        await call.get("urls", page=2, orderby="date")
        first, second = call.box.requests
        assert (first.method, first.path, first.query) == ("POST", TAGS, {})
        assert (first.body, second.query) == (b'{"name": "x"}', {"page": "2", "orderby": "date"})
        assert second.at >= first.at >= 0


async def test_headers_and_credentials_may_be_set_while_it_runs() -> None:
    async with serving() as call:
        call.box.headers["Age"] = "7"
        assert (await call.get("urls")).headers["Age"] == "7"
        call.box.apikey = "another"
        assert (await call.get("urls")).status == 401


@pytest.mark.parametrize(
    "options",
    [{"range_end": "open"}, {"places": -1}, {"rate": 0}, {"rates": 1}, {"latency": [1]}, {"faults": ["500"]}],
)
def test_options_that_it_does_not_have_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        Sandbox(**options)


def test_links_are_removed_with_their_clicks_and_have_known_tags_domains_and_labels() -> None:
    with small() as box:
        new, clicks = box.add_url("new"), box.truth.alltime().clicks_total
        box.add_click(new, "2024-01-01")
        for key in ("new", new):
            with pytest.raises(sqlite3.Error):
                box.add_click(key, "2024-01-01", colour="red")
        box.remove_url("new")
        assert box.truth.alltime().clicks_total == clicks
        assert "new" not in [url.slashtag for url in box.truth.urls()]
        with pytest.raises(LookupError):
            box.remove_url("new")
        with pytest.raises(LookupError):
            box.add_url("new", tag="nobody has it")
        with pytest.raises(sqlite3.IntegrityError):
            box.add_url("new", domain_id=9)

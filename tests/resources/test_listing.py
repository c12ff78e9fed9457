"""Listings over the wire: in order, none twice, nothing asked for that is not needed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from slashtag import BadRequestError, InvalidRequestError, ShortUrl
from slashtag.sandbox import Sandbox
from tests.resources.accounts import Account, client, page_of, scripted
from tests.support import wire


def asked(box: Sandbox) -> list[int]:
    return [int(arrival.query["page"]) for arrival in box.requests]


@pytest.mark.parametrize("orderby", ["date", "-date", None])
async def test_a_listing_holds_every_link_once_in_order(account: Account, orderby: str | None) -> None:
    async with account.serve(latency=0.001) as box, client(box) as api:
        links = [url async for url in api.urls.list(orderby=orderby, pagesize=100)]
        truth = box.truth.urls()
        assert {arrival.query.get("orderby") for arrival in box.requests} == {orderby}
    assert [url.id for url in links] == [url.id for url in (truth if orderby == "date" else truth[::-1])]


async def test_one_page_is_one_request_with_the_defaults_of_the_document(account: Account) -> None:
    async with account.serve() as box, client(box) as api:
        page = await api.urls.page()
        assert (page.page, page.page_size, len(page.items)) == (1, 50, 50)
        assert box.requests[0].query == {"page": "1", "pagesize": "50"}
        assert [url.id for url in page.items] == [url.id for url in box.truth.urls()[:-51:-1]]
        assert (await api.urls.page(10_000)).items == []


async def test_pages_hold_the_items_in_order_and_progress_counts_them(account: Account) -> None:
    told = list[tuple[int, int | None]]()
    async with account.serve() as box, client(box) as api:
        listing = api.urls.list(pagesize=300, progress=lambda *done: told.append(done))
        pages = [page async for page in listing.pages()]
    assert [(page.page, len(page.items)) for page in pages] == [*((n, 300) for n in (1, 2, 3, 4)), (5, 100)]
    assert told == [(n, None) for n in (300, 600, 900, 1200, 1300)]


async def test_a_listing_may_begin_later(account: Account) -> None:
    async with account.serve() as box, client(box) as api:
        links = [url.id async for url in api.urls.list(pagesize=100, start_page=12)]
        assert links == [url.id for url in box.truth.urls()[1100:]]
        first = await api.urls.list(pagesize=100, start_page=12).to_list(30)
        assert [url.id for url in first] == links[:30]
        assert min(asked(box)) == 12


async def test_iterations_over_one_listing_start_anew_and_do_not_disturb_each_other(account: Account) -> None:
    async with account.serve() as box, client(box) as api:
        listing = api.urls.list(pagesize=500)
        whole = [url.id for url in box.truth.urls()]

        async def ids() -> list[int]:
            return [url.id async for url in listing]

        assert await asyncio.gather(ids(), ids()) == [whole, whole]
        async for url in listing:
            assert url.id == whole[0]
            break
        async with listing:
            assert await ids() == whole
        assert await ids() == whole
        assert asked(box).count(1) == 5


@pytest.mark.parametrize("prefetch", [1, 8])
async def test_pages_are_requested_ahead(account: Account, prefetch: int) -> None:
    # Far enough away that a busy machine has asked for all it may before the first of them is answered.
    async with account.serve(latency=0.02 * prefetch) as box, client(box) as api:
        assert len(await api.urls.list(pagesize=50, prefetch=prefetch).to_list()) == 1300
        assert sorted(asked(box)) == list(range(1, len(box.requests) + 1))
        assert max(arrival.in_flight for arrival in box.requests) == prefetch


@pytest.mark.parametrize(("limit", "pages"), [(49, 1), (120, 3)])
async def test_a_limit_asks_for_no_page_beyond_it(account: Account, limit: int, pages: int) -> None:
    async with account.serve(latency=0.001) as box, client(box) as api:
        links = await api.urls.list(pagesize=50).to_list(limit)
        assert [url.id for url in links] == [url.id for url in box.truth.urls()[:limit]]
        assert sorted(asked(box)) == list(range(1, pages + 1))
        if limit < 50:
            assert box.requests[0].query["pagesize"] == str(limit)


@pytest.mark.parametrize(
    "options",
    [
        {"start_page": 0},
        {"start_page": "1"},
        {"pagesize": 0},
        {"pagesize": 501},
        {"pagesize": True},
        {"prefetch": 0},
        {"orderby": "hits"},
    ],
)
async def test_what_the_document_does_not_allow_is_refused_at_once(options: dict[str, Any]) -> None:
    async with scripted(()) as (server, api):
        with pytest.raises(InvalidRequestError):
            api.urls.list(**options)
        if not options.keys() & {"prefetch", "start_page"}:
            with pytest.raises(InvalidRequestError):
                await api.tags.page(**options)
        for page in (0, -1, "1"):
            with pytest.raises(InvalidRequestError):
                await api.urls.page(page)  # type: ignore[arg-type]
        with pytest.raises(InvalidRequestError):
            await api.urls.list().to_list(-1)
        assert server.requests == []


async def read(listing: AsyncIterator[ShortUrl], seen: list[ShortUrl]) -> None:
    async for url in listing:
        seen.append(url)  # noqa: PERF401 - what came before a failure stays


async def test_a_later_page_that_fails_is_an_error_after_what_came_before_it() -> None:
    def answer(request: wire.Request) -> wire.Answer:
        page = int(request.query["page"][0])
        ids = range(3 * page, 3 * page + 3)
        return page_of(page, ids, 3) if page < 4 else wire.envelope(400, "Bad request.", None)

    async with scripted(answer) as (_, api):
        stream = aiter(api.urls.list(pagesize=3))
        seen = list[ShortUrl]()
        with pytest.raises(BadRequestError):
            await read(stream, seen)
        assert [url.id for url in seen] == list(range(3, 12))
        assert [url async for url in stream] == []


async def test_a_bulk_import_in_an_order_that_differs_is_read_again_past_caches() -> None:
    def answer(request: wire.Request) -> wire.Answer:
        page, size = (int(request.query[name][0]) for name in ("page", "pagesize"))
        # Each page has an order of its own, the same in every run.
        ids = [*random.Random(1_000 * size + page).sample(range(500), 500), *range(500, 700)]
        return page_of(page, ids[(page - 1) * size : page * size], size)

    async with scripted(answer) as (server, api):
        assert sorted([url.id async for url in api.urls.list(pagesize=100)]) == list(range(700))
        fresh = ["cache-control" in request.headers for request in server.requests]
        assert fresh == sorted(fresh)
        assert True in fresh

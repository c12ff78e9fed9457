"""Listings of services that page oddly: whole and each link once, or an error."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from slashtag import PaginationError
from tests.resources.accounts import page_of, scripted
from tests.support import wire

LINKS = 1_237


class Paged:
    """A service of 1,237 links; where `odd(self, page, size)` returns an answer, it gives that one."""

    def __init__(self, odd: Callable[[Paged, int, int], wire.Answer | None], *, latest_first: bool) -> None:
        self.ids = list(range(LINKS))
        self.requests = 0
        self._odd = odd
        self._latest_first = latest_first

    def __call__(self, request: wire.Request) -> wire.Answer:
        self.requests += 1
        page, size = (int(request.query[name][0]) for name in ("page", "pagesize"))
        return self._odd(self, page, size) or self.page(page, size)

    def found(self, page: int, size: int, seed: int | None = None) -> list[int]:
        """Return the ids of a page; with a seed, 400 at a time were created together and are shuffled."""
        ids = self.ids
        if seed is not None:
            random = Random(seed)
            ids = sorted(ids, key=lambda id: (id // 400, random.random()))
        ids = ids[::-1] if self._latest_first else ids
        return ids[(page - 1) * size : page * size]

    def page(
        self,
        page: int,
        size: int,
        *,
        says: int | None = None,
        seed: int | None = None,
        told: int | None = None,
    ) -> wire.Answer:
        return page_of(says or page, self.found(page, size, seed), told or size)

    def last(self, size: int) -> int:
        return -(-len(self.ids) // size)

    def arrive(self, n: int) -> None:
        self.ids += range(len(self.ids), len(self.ids) + n)


def on_request(number: int, answer: Callable[[Paged, int, int], wire.Answer]) -> Any:
    return lambda service, page, size: answer(service, page, size) if service.requests == number else None


def beyond(answer: Callable[[Paged, int, int], wire.Answer]) -> Any:
    return lambda service, page, size: answer(service, page, size) if page > service.last(size) else None


NOT_FOUND = wire.envelope(404, "Not found.", None)


def grows(service: Paged, page: int, size: int) -> None:
    service.arrive(size // 8)


def floods(service: Paged, page: int, size: int) -> None:
    service.arrive(2 * size)


#: Name -> (the service, True to read it with orderby="-date", True if it has to be whole without an error).
SERVICES: dict[str, tuple[Callable[[Paged, int, int], wire.Answer | None], bool, bool]] = {
    "empty pages beyond the end": (lambda service, page, size: None, False, True),
    "404 beyond the end": (beyond(lambda *_: NOT_FOUND), False, True),
    "400 beyond the end": (beyond(lambda *_: wire.envelope(400, "Bad request.", None)), False, True),
    "the last page beyond the end": (beyond(lambda s, _, size: s.page(s.last(size), size)), False, True),
    "one stray empty page": (on_request(2, lambda s, page, size: page_of(page, [], size)), False, True),
    "one stray 404": (on_request(3, lambda *_: NOT_FOUND), False, True),
    "one stray 404 in HTML": (on_request(3, lambda *_: wire.html(404)), False, True),
    "one wrong page number": (on_request(2, lambda s, page, size: s.page(page, size, says=1)), False, True),
    "pages capped at 100 in silence": (
        lambda s, page, size: s.page(page, min(size, 100), told=size),
        False,
        True,
    ),
    "pages lowered to 50": (lambda s, page, _: s.page(page, 50), False, True),
    "pages lowered to 50 midway": (
        lambda s, page, size: s.page(page, 50) if s.requests > 2 else None,
        False,
        True,
    ),
    "page 1 in half the size, once": (
        on_request(1, lambda s, page, size: s.page(page, size // 2)),
        False,
        True,
    ),
    "half of page 2, once": (
        on_request(2, lambda s, page, size: page_of(page, s.found(page, size)[: size // 2], size)),
        False,
        True,
    ),
    "ties in another order each time": (
        lambda s, page, size: s.page(page, size, seed=s.requests),
        False,
        True,
    ),
    "ties by the page, latest first": (
        lambda s, page, size: s.page(page, size, seed=page * size),
        True,
        True,
    ),
    "page 2 always empty": (
        lambda s, page, size: page_of(page, [], size) if page == 2 else None,
        False,
        False,
    ),
    "page ignored, page 1 told": (lambda s, page, size: s.page(1, size), False, False),
    "page ignored, any page told": (lambda s, page, size: s.page(1, size, says=page), False, False),
    "links arrive, latest first": (grows, True, True),
    "links arrive faster than read": (floods, True, False),
}


async def read(name: str, pagesize: int, prefetch: int) -> tuple[list[int], PaginationError | None, int]:
    """Read the listing of a service; return the ids given, the error, and the number of requests."""
    odd, latest_first, _ = SERVICES[name]
    given: list[int] = []
    error = None
    orderby = "-date" if latest_first else "date"
    async with scripted(Paged(odd, latest_first=latest_first)) as (server, api):
        try:
            async for page in api.urls.list(orderby=orderby, pagesize=pagesize, prefetch=prefetch).pages():
                given += [url.id for url in page.items]
        except PaginationError as caught:
            error = caught
        return given, error, len(server.requests)


@pytest.mark.unmeasured
@pytest.mark.parametrize("prefetch", [1, 8])
@pytest.mark.parametrize("pagesize", [100, 500])
@pytest.mark.parametrize("name", SERVICES)
async def test_no_listing_is_short_without_an_error(name: str, pagesize: int, prefetch: int) -> None:
    given, error, _ = await read(name, pagesize, prefetch)
    assert len(given) == len(set(given))
    assert error or set(given) >= set(range(LINKS))
    if SERVICES[name][2]:
        assert error is None

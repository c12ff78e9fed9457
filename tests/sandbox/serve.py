"""A running sandbox and a plain HTTP client for it."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import aiohttp
from yarl import URL

from slashtag.sandbox import Sandbox


class Reply(NamedTuple):
    status: int
    body: Any
    headers: dict[str, str]

    @property
    def data(self) -> Any:
        assert (self.status, self.body["message"]) == (200, "ok")
        return self.body["data"]


class Caller:
    """Call a sandbox over one connection; targets are sent exactly as they are given."""

    def __init__(self, box: Sandbox, http: aiohttp.ClientSession) -> None:
        self.box = box
        self.http = http

    async def raw(self, method: str, target: str, **more: Any) -> aiohttp.ClientResponse:
        async with self.http.request(
            method, URL(self.box.base_url + target, encoded=True), **more
        ) as response:
            await response.read()
            return response

    async def __call__(self, method: str, target: str, **more: Any) -> Reply:
        response = await self.raw(method, target, **more)
        return Reply(response.status, await response.json(), dict(response.headers))

    async def arrivals(self, n: int) -> None:
        """Wait until `n` requests have arrived."""
        while len(self.box.requests) < n:  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    async def get(self, path: str, **query: object) -> Reply:
        return await self(
            "GET", str(URL(f"/api/v1/{path}").with_query({k: str(v) for k, v in query.items()}))
        )

    async def range(self, **query: object) -> Any:
        return (await self.get("stats", **query)).data

    async def put(self, segment: str, **body: object) -> Reply:
        return await self("PUT", f"/api/v1/urls/{segment}", json=body)

    async def post(self, **body: object) -> Reply:
        return await self("POST", "/api/v1/tags", json=body)


@asynccontextmanager
async def calling(box: Sandbox) -> AsyncGenerator[Caller]:
    """Call a running sandbox. A connection is used once: the client then repeats no request by itself."""
    headers = {"apikey": box.apikey, "apisecret": box.apisecret}
    connector = aiohttp.TCPConnector(force_close=True)
    async with aiohttp.ClientSession(headers=headers, connector=connector) as http:
        yield Caller(box, http)


@asynccontextmanager
async def serving(**options: Any) -> AsyncGenerator[Caller]:
    """Run a sandbox, empty by default, and call it."""
    empty: dict[str, Any] = {"urls": 0, "clicks": 0, "tags": 0}
    async with Sandbox(**empty | options) as box, calling(box) as call:
        yield call

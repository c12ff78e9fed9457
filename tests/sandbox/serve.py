"""A running sandbox and a plain HTTP client for it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import aiohttp
from yarl import URL

from slashtag.sandbox import Sandbox

TAGS = "/api/v1/tags"


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
        url = URL(self.box.base_url + target, encoded=True)
        async with self.http.request(method, url, **more) as response:
            await response.read()
            return response

    async def __call__(self, method: str, target: str, **more: Any) -> Reply:
        response = await self.raw(method, target, **more)
        return Reply(response.status, await response.json(), dict(response.headers))

    async def get(self, path: str, **query: object) -> Reply:
        texts = {name: str(value) for name, value in query.items()}
        return await self("GET", str(URL(f"/api/v1/{path}").with_query(texts)))

    async def post(self, **body: object) -> Reply:
        return await self("POST", TAGS, json=body)


@asynccontextmanager
async def serving(**options: Any) -> AsyncGenerator[Caller]:
    """Run a sandbox, empty by default, and call it over connections that are used once.

    The client then repeats no request by itself.
    """
    empty: dict[str, Any] = {"urls": 0, "clicks": 0, "tags": 0}
    connector = aiohttp.TCPConnector(force_close=True)
    async with Sandbox(**empty | options) as box:
        headers = {"apikey": box.apikey, "apisecret": box.apisecret}
        async with aiohttp.ClientSession(headers=headers, connector=connector) as http:
            yield Caller(box, http)

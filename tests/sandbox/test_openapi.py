"""The OpenAPI description: served, and what the sandbox answers conforms to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp
import jsonschema
import pytest
import yaml

from slashtag.sandbox import Sandbox

from .serve import Caller, serving

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "src" / "slashtag" / "sandbox" / "openapi.json").read_text("utf-8")
DOCUMENT: dict[str, Any] = json.loads(TEXT)


def schema(path: str, method: str, status: int) -> dict[str, Any]:
    """The schema of an answer, with the components that it refers to."""
    response = DOCUMENT["paths"][path][method]["responses"][str(status)]
    if "$ref" in response:
        response = DOCUMENT["components"]["responses"][response["$ref"].rpartition("/")[2]]
    return response["content"]["application/json"]["schema"] | {"components": DOCUMENT["components"]}


async def test_it_is_served_to_anybody_and_not_recorded() -> None:
    async with Sandbox(urls=0, clicks=0) as box, aiohttp.ClientSession() as http:
        async with http.get(f"{box.base_url}/openapi.json") as response:
            assert response.status == 200
            assert await response.json() == DOCUMENT
        assert box.requests == []


def test_the_file_is_yaml_and_every_reference_resolves() -> None:
    assert yaml.safe_load(TEXT) == DOCUMENT

    def references(value: Any) -> list[str]:
        if isinstance(value, list):
            return [found for one in value for found in references(one)]
        if not isinstance(value, dict):
            return []
        return [value["$ref"]] if "$ref" in value else references(list(value.values()))

    for reference in references(DOCUMENT):
        at: Any = DOCUMENT
        for part in reference.removeprefix("#/").split("/"):
            at = at[part]


REQUESTS: list[tuple[str, str, str, int, dict[str, Any] | None]] = [
    ("/urls", "get", "/urls?pagesize=7", 200, None),
    ("/urls", "get", "/urls?pagesize=0", 400, None),
    ("/urls", "get", f"/urls?page={2**80}", 200, None),
    ("/urls/{key}", "put", "/urls/1000001", 200, {"redirect_code": 302}),
    ("/urls/{key}", "put", "/urls/1000001", 400, {"redirect_code": 305}),
    ("/urls/{key}", "put", "/urls/nosuch", 404, {"redirect_code": 302}),
    ("/tags", "get", "/tags?orderby=date", 200, None),
    ("/tags", "get", f"/tags?page={2**80}&pagesize=500", 200, None),
    ("/tags", "post", "/tags", 200, {"name": "new"}),
    ("/tags", "post", "/tags", 400, {}),
    ("/stats", "get", "/stats?tag=newsletter&date=2024-03-05T00:00:00%2B00:00", 200, None),
    (
        *("/stats", "get"),
        "/stats?tag=newsletter&date_range=2024-03-01T00:00:00%2B00:00,2024-03-09T23:59:59%2B00:00",
        *(200, None),
    ),
    ("/stats", "get", "/stats?tag=nosuch&date=2024-03-05T00:00:00%2B00:00", 400, None),
    ("/stats/yearly", "get", "/stats/yearly?url_keys=a,b&year=2024", 200, None),
    ("/stats/yearly", "get", "/stats/yearly?tag=newsletter&year=2024", 200, None),
    ("/stats/alltime", "get", "/stats/alltime?tag=newsletter", 200, None),
    ("/stats/alltime", "get", "/stats/alltime", 400, None),
    (
        *("/stats/country/geo", "get"),
        "/stats/country/geo?tag=newsletter&iso_code=us&start_date=2024-01-01&end_date=2024-12-31",
        *(200, None),
    ),
]


@pytest.mark.parametrize("empty_maps", ["object", "array"])
async def test_answers_conform(empty_maps: Any) -> None:
    async with serving(urls=50, clicks=2_000, tags=5, empty_maps=empty_maps) as call:
        for path, method, target, status, body in REQUESTS:
            more = {} if body is None else {"json": body}
            reply = await call(method.upper(), f"/api/v1{target}", **more)
            assert reply.status == status, target
            jsonschema.validate(reply.body, schema(path, method, status))


async def test_other_answers_conform() -> None:
    async with Sandbox(urls=1, clicks=0, tags=0, max_tags=0) as box:
        async with aiohttp.ClientSession() as http:
            for path in ("urls", "tags", "stats/alltime"):
                reply = await Caller(box, http)("GET", f"/api/v1/{path}")
                assert reply.status == 401
                jsonschema.validate(reply.body, schema(f"/{path}", "get", 401))
        async with aiohttp.ClientSession(headers={"apikey": box.apikey, "apisecret": box.apisecret}) as http:
            reply = await Caller(box, http)("POST", "/api/v1/tags", json={"name": "one too many"})
            assert reply.status == 429
            jsonschema.validate(reply.body, schema("/tags", "post", 429))

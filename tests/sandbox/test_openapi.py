"""The OpenAPI description. What the sandbox answers is held to it in test_service."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

from .serve import serving

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "src" / "slashtag" / "sandbox" / "openapi.json").read_text("utf-8")
DOCUMENT: dict[str, Any] = json.loads(TEXT)


def schema(method: str, target: str, status: str) -> dict[str, Any] | None:
    """Return the schema of an answer with what it refers to, or None for an endpoint that there is not."""
    path = re.sub("^/urls/.*", "/urls/{key}", "/" + target.partition("?")[0])
    endpoint = DOCUMENT["paths"].get(path, {}).get(method.lower())
    if endpoint is None:
        return None
    response = endpoint["responses"][status]
    if "$ref" in response:
        response = DOCUMENT["components"]["responses"][response["$ref"].rpartition("/")[2]]
    return response["content"]["application/json"]["schema"] | {"components": DOCUMENT["components"]}


async def test_it_is_yaml_and_served_to_anybody_and_not_recorded() -> None:
    async with serving() as call:
        reply = await call("GET", "/openapi.json", headers={"apikey": ""})
        assert reply.body == DOCUMENT == yaml.safe_load(TEXT)
        assert call.box.requests == []

"""The OpenAPI description. What the sandbox answers is held to it in test_service."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from slashtag.sandbox import rules

ROOT = Path(__file__).parent.parent.parent
PATH = ROOT / "src" / "slashtag" / "sandbox" / "openapi.json"
DOCUMENT: dict[str, Any] = json.loads(PATH.read_text("utf-8"))


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


@pytest.mark.parametrize("form", [rules.Listing, rules.UrlUpdate, rules.NewTag])
def test_a_request_has_the_bounds_of_the_description(form: Any) -> None:
    parts = DOCUMENT["components"]
    described = {name: each["schema"] for name, each in parts["parameters"].items()}
    described |= parts["schemas"].get(form.__name__, {}).get("properties", {})
    for name, rule in msgspec.json.schema(form)["$defs"][form.__name__]["properties"].items():
        for bound in ("minimum", "maximum", "minLength", "maxLength", "enum"):
            assert described[name].get(bound) == rule.get(bound)

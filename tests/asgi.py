"""Requests to an ASGI application, without a server."""

from __future__ import annotations

import json
from typing import Any


async def get(app: Any, path: str) -> tuple[int, Any]:
    """Return the status and the decoded body of an answer of an ASGI application."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": []}
    await app(scope, receive, send)
    return sent[0]["status"], json.loads(b"".join(message.get("body", b"") for message in sent[1:]))

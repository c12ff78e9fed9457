"""Requests to an ASGI application, without a server."""

from __future__ import annotations

import json
from typing import Any


async def get(app: Any, path: str) -> tuple[int, Any]:
    """Return the status and the decoded body of an answer of an ASGI application."""
    return await request(app, "GET", path)


async def request(app: Any, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """Send a request with a JSON body; return the status and the decoded body of the answer."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        data = b"" if body is None else json.dumps(body).encode()
        return {"type": "http.request", "body": data, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    path, _, query = path.partition("?")
    headers = [(b"content-type", b"application/json")]
    scope: dict[str, Any] = {"type": "http", "method": method, "path": path, "headers": headers}
    scope["query_string"] = query.encode()
    await app(scope, receive, send)
    return sent[0]["status"], json.loads(b"".join(message.get("body", b"") for message in sent[1:]))

"""Requests to an ASGI application, without a server."""

from __future__ import annotations

import asyncio
import json
from typing import Any


async def get(app: Any, path: str) -> tuple[int, Any]:
    """Return the status and the decoded body of an answer of an ASGI application."""
    return await request(app, "GET", path)


async def request(
    app: Any, method: str, path: str, body: Any = None, *, gone: asyncio.Event | None = None
) -> tuple[int, Any]:
    """Send a request with a JSON body; return the status and the decoded body of the answer.

    The client disconnects when `gone` is set.
    """
    sent = list[dict[str, Any]]()
    data = [b"" if body is None else json.dumps(body).encode()]

    async def receive() -> dict[str, Any]:
        if data:
            return {"type": "http.request", "body": data.pop(), "more_body": False}
        await (gone or asyncio.Event()).wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    path, _, query = path.partition("?")
    headers = [(b"content-type", b"application/json")]
    scope: dict[str, Any] = {"type": "http", "method": method, "path": path, "headers": headers}
    scope["query_string"] = query.encode()
    await app(scope, receive, send)
    return sent[0]["status"], json.loads(b"".join(message.get("body", b"") for message in sent[1:]))

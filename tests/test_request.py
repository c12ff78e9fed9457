"""`session.request`: endpoints that have no method, with everything that other requests have."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import msgspec
import pytest

from slashtag import (
    APIError,
    BadRequestError,
    NotFoundError,
    OutcomeUnknownError,
    RequestFailedError,
    RetryPolicy,
    UnexpectedResponseError,
)

from .support import wire as wires
from .support.sending import APIKEY, connect
from .support.tables import cells
from .support.wire import Answer, Request, Wire, envelope, html, ok, redirect, response

PASSWORD = "correct horse battery"


class Link(msgspec.Struct):
    id: int
    destination: str = ""


async def asked(answer: Answer, method: str = "POST", **options: Any) -> Any:
    async with Wire(answer) as wire, connect(wire) as session:
        return await session.request(method, "urls", **options)


# --- answers -------------------------------------------------------------------------------------------


#: Status and body of an answer, and its data.
ANSWERS = """
200 | {"status": 200, "message": "ok", "data": {"id": 5}} | {"id": 5}
201 | {"status": 201, "message": "ok", "data": [1]}      | [1]
204 |                                                    | null
200 | [1, 2]                                             | [1, 2]
202 | "text"                                             | "text"
200 | {"status": "active", "message": "hello"}           | {"status": "active", "message": "hello"}
200 | {"status": 5, "id": 1}                             | {"status": 5, "id": 1}
200 | {"status": 200, "data": 1}                         | 1
200 | {"status": 200, "message": "ok", "data": 1, "n": 2} | {"status":200, "message":"ok", "data":1, "n":2}
200 | \ufeff{"status": 200, "message": "ok", "data": 1}  | 1
200 | "half an emoji: \\ud83d"                           | "half an emoji: \ufffd"
200 | 123456789012345678901234567890                     | 123456789012345678901234567890
"""


@pytest.mark.parametrize(("status", "body", "data"), [*cells(ANSWERS), ("200", " \r\n", "null")])
async def test_the_data_of_an_answer(status: str, body: str, data: str) -> None:
    assert await asked(response(int(status), body.encode())) == json.loads(data)


@pytest.mark.parametrize(
    ("answer", "kind", "status"),
    [
        (envelope(400, "Bad request.", http_status=201), BadRequestError, 400),
        (html(404), NotFoundError, 404),
        (redirect("https://elsewhere.example/"), UnexpectedResponseError, 302),
        (response(200, b"{"), UnexpectedResponseError, 200),
    ],
)
async def test_errors_are_those_of_all_requests(answer: Answer, kind: type[Any], status: int) -> None:
    with pytest.raises(kind) as told:
        await asked(answer, "GET")
    assert told.value.status == status
    assert (told.value.method, told.value.path) == ("GET", "urls")


# --- what is sent --------------------------------------------------------------------------------------


async def test_method_path_query_and_body_arrive() -> None:
    async with Wire(ok(1)) as wire, connect(wire) as session:
        params = {"a b": "x&y=z\r\nX-Evil: 1", "n": 1.5, "none": None}
        await session.request("patch", "ürls/ä b%2F", params=params, json=Link(5, "ü"))
    (request,) = wire.requests
    assert request.method == "PATCH"
    assert request.target.isascii()
    path, _, query = request.target.partition("?")
    assert path == "/api/v1/%C3%BCrls/%C3%A4%20b%2F"
    assert parse_qsl(query) == [("a b", "x&y=z\r\nX-Evil: 1"), ("n", "1.5")]
    assert request.json() == {"id": 5, "destination": "ü"}
    assert request.headers["apikey"] == APIKEY
    assert request.headers["content-type"] == "application/json"
    assert "x-evil" not in request.headers


# --- repeats -------------------------------------------------------------------------------------------


async def test_writes_are_made_once_and_what_is_idempotent_again() -> None:
    async with Wire([wires.hang_up(), html(503), ok(1)]) as wire, connect(wire) as session:
        with pytest.raises(OutcomeUnknownError):
            await session.request("PATCH", "urls", json={"destination": "x"})
        assert await session.request("DELETE", "urls/5") == 1


async def test_a_huge_body_is_sent() -> None:
    async with Wire(lambda request: ok(len(request.body))) as wire, connect(wire) as session:
        assert await session.request("POST", "urls", json="x" * 5_000_000) == 5_000_002


async def test_a_journal_has_no_part_in_it(tmp_path: Path) -> None:
    numbers = iter(range(9))
    script = lambda request: ok(next(numbers))  # noqa: E731
    async with Wire(script) as wire:
        for n in range(2):
            async with connect(wire, journal=tmp_path / "journal") as session:
                assert await session.request("GET", "stats", params={"url_keys": "a"}) == n
                assert session.metrics.replayed == 0


def echo(request: Request) -> Answer:
    told = f"{request.headers} {request.target} {request.body.decode()}"
    headers = [("X-Echo", told), ("X-Request-Id", "r-1"), ("Set-Cookie", "a=b")]
    return envelope(400, told, {"echo": told}, headers=headers)


# --- headers of errors ---------------------------------------------------------------------------------


async def test_an_error_bears_the_headers_of_its_answer_without_secrets_and_pickles() -> None:
    async with Wire(echo) as wire, connect(wire) as session:
        with pytest.raises(APIError) as told:
            await session.request("GET", "urls")
    for error in (told.value, pickle.loads(pickle.dumps(told.value))):
        assert error.request_id == error.headers["x-request-id"] == "r-1"
        assert error.headers["CONTENT-TYPE"] == "application/json"
        assert not {"set-cookie", "x-echo"} & {name.lower() for name in error.headers}


async def test_a_lost_write_and_a_limit_bear_the_headers_of_the_last_answer() -> None:
    script = wires.response(502, b"<html>", [("X-Request-ID", "r-2")])
    with pytest.raises(OutcomeUnknownError) as lost:
        await asked(script)
    limited = envelope(
        429, "Too many requests.", headers=[("X-Correlation-Id", "r-3"), ("Retry-After", "60")]
    )
    async with Wire(limited) as wire, connect(wire, retry=RetryPolicy(max_wait=1)) as session:
        with pytest.raises(RequestFailedError) as refused:
            await session.request("GET", "urls")
    assert (lost.value.request_id, refused.value.request_id) == ("r-2", "r-3")

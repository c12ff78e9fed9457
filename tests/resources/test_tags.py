"""Creating tags, and having them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from slashtag import BadRequestError, InvalidRequestError, OutcomeUnknownError, ServerError
from slashtag.sandbox import Fault
from tests.resources.accounts import scripted, serving
from tests.support import wire

NO_TAGS = wire.ok({"page": 1, "pageSize": 500, "items": []})
TAG = {"id": 9, "name": "spring", "description": "", "createdAt": "2024-05-05 05:05:05"}


@pytest.mark.parametrize("description", [None, "", "All of spring's links", "d" * 255])
async def test_a_created_tag_is_returned_and_there(description: str | None) -> None:
    async with serving() as (box, api):
        tag = await api.tags.create("spring", description=description)
        (true,) = box.truth.tags()
        assert (tag.id, tag.name, tag.description) == (true.id, "spring", description or "")
        assert str(tag.created_at) == true.created_at
        assert (b"description" in box.requests[0].body) is (description is not None)


@pytest.mark.parametrize(
    ("name", "description"),
    [("", None), ("x" * 26, None), (5, None), (None, None), ("a", "d" * 256), ("a", 5), ("\ud800", None)],
)
async def test_what_the_document_does_not_allow_is_refused_before_sending(
    name: Any, description: Any
) -> None:
    async with scripted(()) as (server, api):
        with pytest.raises(InvalidRequestError):
            await api.tags.create(name, description=description)
        assert server.requests == []


async def test_ensure_creates_once_and_then_finds() -> None:
    async with serving() as (box, api):
        for n in range(31):
            box.add_tag(f"t{n}")
        first = await api.tags.ensure("spring", description="new")
        again = await api.tags.ensure("spring", description="ignored")
        assert first == again
        assert [arrival.method for arrival in box.requests] == ["GET", "POST", "GET"]


async def test_ensure_of_many_at_once_creates_one() -> None:
    async with serving(latency=0.002) as (box, api):
        tags = await asyncio.gather(*[api.tags.ensure("spring") for _ in range(10)])
        assert len({tag.id for tag in tags}) == 1
        assert len(box.truth.tags()) == 1


async def test_ensure_finds_what_somebody_else_created_meanwhile() -> None:
    script = [
        NO_TAGS,
        wire.envelope(400, "Bad request. The name is taken.", None),
        wire.ok({"page": 1, "pageSize": 500, "items": [TAG]}),
    ]
    async with scripted(script) as (_, api):
        assert (await api.tags.ensure("spring")).id == 9


@pytest.mark.parametrize("kind", ["reset", "html-502", "html-200", "truncated-json", "truncated-body", "504"])
async def test_ensure_finds_what_it_created_though_the_answer_was_lost(kind: str) -> None:
    async with serving() as (box, api):
        box.faults = [Fault(kind=kind, method="POST", after_work=True)]
        tag = await api.tags.ensure("spring")
        (true,) = box.truth.tags()
        assert tag.id == true.id
        assert [arrival.method for arrival in box.requests] == ["GET", "POST", "GET"]


async def test_ensure_raises_where_the_tag_was_not_created() -> None:
    async with serving() as (box, api):
        box.faults = [Fault(kind="reset", method="POST")]
        with pytest.raises(OutcomeUnknownError):
            await api.tags.ensure("spring")
        box.faults = [Fault(kind="500", method="POST")]
        with pytest.raises(ServerError):
            await api.tags.ensure("spring")
        assert [arrival.method for arrival in box.requests] == ["GET", "POST", "GET", "GET", "POST"]
    script = [
        NO_TAGS,
        wire.envelope(400, "Bad request. No such name.", None),
        wire.ok({"page": 1, "pageSize": 500, "items": [TAG | {"name": "Spring"}]}),
    ]
    async with scripted(script) as (_, api):
        with pytest.raises(BadRequestError, match="No such name"):
            await api.tags.ensure("spring")

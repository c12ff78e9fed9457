"""List and create tags: docs/service.md, endpoints 3 and 4."""

import pytest

from .serve import serving


async def test_pages_of_tags_follow_the_rules_of_pages_of_urls() -> None:
    async with serving(tags=60) as call:
        names = [tag.name for tag in call.box.truth.tags()]
        assert len(names) == 60
        answer = (await call.get("tags")).data
        assert (answer["page"], answer["pageSize"], len(answer["items"])) == (1, 50, 50)
        oldest = [(await call.get("tags", page=page, pagesize=25, orderby="date")).data for page in (1, 2, 3)]
        assert [item["name"] for page in oldest for item in page["items"]] == names
        assert [item["name"] for item in answer["items"]] == names[::-1][:50]


async def test_a_created_tag_is_answered_and_listed() -> None:
    async with serving() as call:
        created = (await call.post(name="été & co", description="d" * 255)).data
        assert created.keys() == {"id", "name", "description", "createdAt"}
        assert (created["name"], created["description"]) == ("été & co", "d" * 255)
        assert (await call.get("tags")).data["items"] == [created]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": ""},
        {"name": "x" * 26},
        {"name": 5},
        {"name": "new", "description": "x" * 256},
        {"name": "old"},
    ],
)
async def test_a_tag_against_the_rules_is_refused(body: dict[str, object]) -> None:
    async with serving() as call:
        call.box.add_tag("old")
        answer = await call.post(**body)
        assert (answer.status, answer.body["status"], answer.body["data"]) == (400, 400, None)
        assert answer.body["message"].startswith("Bad request. ")
        assert len(call.box.truth.tags()) == 1


async def test_the_limit_of_tags_is_a_429_that_speaks_of_tags_and_support() -> None:
    async with serving(max_tags=1) as call:
        assert (await call.post(name="one")).status == 200
        answer = await call.post(name="two")
        assert (answer.status, answer.body["status"], answer.body["data"]) == (429, 429, None)
        assert "maximum allowed number of tags is reached" in answer.body["message"]
        assert "support" in answer.body["message"]
        assert "Retry-After" not in answer.headers
        assert (await call.post(name="one")).status == 400


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/json", b"{"),
        ("application/json", b"[]"),
        ("application/json", b'{"name": "\xff"}'),
        ("application/json", b'{"deep": ' + b"[" * 100_000),
        ("text/plain", b'{"name": "x"}'),
        ("application/x-www-form-urlencoded", b"name=x"),
    ],
)
async def test_a_body_must_be_a_json_object_and_said_to_be_json(content_type: str, body: bytes) -> None:
    async with serving() as call:
        answer = await call("POST", "/api/v1/tags", data=body, headers={"Content-Type": content_type})
        assert (answer.status, answer.body["data"]) == (400, None)

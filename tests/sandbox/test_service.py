"""What docs/service.md says of each endpoint, as requests and answers."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import quote

import jsonschema
import pytest

from slashtag.sandbox import Sandbox

from .serve import Caller, serving
from .test_openapi import schema

# A title begins an account of its own, with options of the sandbox. Each request has the status of its
# answer, a part of the message, and below it members of `data`. `x*3` stands for `xxx`, 2999 for now.
DIALOGUES = """
# Lists: the page is 1, its size 50, the order latest first; a URL without a tag has no tagId
GET urls 200
    {"page": 1, "pageSize": 50}
GET tags 200
    {"page": 1, "pageSize": 50, "items": [
        {"id": 501, "name": "news", "description": "d", "createdAt": "2024-01-01 00:00:00"}]}
GET urls?pagesize=1 200
    {"page": 1, "pageSize": 1, "items": [{"id": 1000005, "destination": "https://www.example/", "hits": 0,
        "redirectCode": "301", "shortUrl": "https://sho.example/2024", "slashtag": "2024",
        "createdAt": "2024-01-05 00:00:00", "updatedAt": "2024-01-05 00:00:00"}]}
GET urls?pagesize=1&orderby=date 200
    {"items": [{"id": 1000001, "destination": "https://www.example/", "hits": 3, "redirectCode": "302",
        "shortUrl": "https://go.example/a", "slashtag": "a",
        "createdAt": "2024-01-01 00:00:00", "updatedAt": "2024-01-01 00:00:00", "tagId": 501}]}
GET urls?page=2 200
    {"page": 2, "items": []}
GET tags?page=9*30&pagesize=500 200
    {"pageSize": 500, "items": []}
GET urls?page=0 400
GET urls?page=x 400
GET urls?page= 400
GET tags?pagesize=0 400
GET tags?pagesize=501 400
GET tags?orderby=id 400

# Page sizes above the server's are lowered, and told; max_pagesize=2
GET urls?pagesize=500 200
    {"pageSize": 2}
GET urls?pagesize=1 200
    {"pageSize": 1}

# Update: by slashtag, or by id where several short URLs share it; digits are an id first
PUT urls/a {"slashtag": "x*100", "password": "x*50", "domain_id": 3} 200
    {"rows_updated": 1}
PUT urls/b {"redirect_code": 307} 400
PUT urls/1000003 {"redirect_code": 308} 200
PUT urls/1000001 {"redirect_code": 303} 200
PUT urls/2024 {"redirect_code": 304, "destination": "https://x.example", "slashtag": "2025"} 200
GET urls?orderby=date 200
    {"items": [
        {"id": 1000001, "destination": "https://www.example/", "hits": 3, "redirectCode": "303", "tagId": 501,
            "shortUrl": "https://brand.example/x*100", "slashtag": "x*100",
            "createdAt": "2024-01-01 00:00:00", "updatedAt": "2999-01-01 00:00:00"},
        {"id": 1000002, "destination": "https://www.example/", "hits": 0, "redirectCode": "301",
            "shortUrl": "https://sho.example/b", "slashtag": "b",
            "createdAt": "2024-01-02 00:00:00", "updatedAt": "2024-01-02 00:00:00"},
        {"id": 1000003, "destination": "https://www.example/", "hits": 0, "redirectCode": "308",
            "shortUrl": "https://link.example/b", "slashtag": "b",
            "createdAt": "2024-01-03 00:00:00", "updatedAt": "2999-01-01 00:00:00"},
        {"id": 1000004, "destination": "https://www.example/", "hits": 0, "redirectCode": "301",
            "shortUrl": "https://sho.example/1000001", "slashtag": "1000001",
            "createdAt": "2024-01-04 00:00:00", "updatedAt": "2024-01-04 00:00:00"},
        {"id": 1000005, "destination": "https://x.example", "hits": 0, "redirectCode": "304",
            "shortUrl": "https://sho.example/2025", "slashtag": "2025",
            "createdAt": "2024-01-05 00:00:00", "updatedAt": "2999-01-01 00:00:00"}]}
PUT urls/nobody {"redirect_code": 302} 404 Not found. URL with specified slashtag doesn't exist.
PUT urls/9*40 {"redirect_code": 302} 404
PUT urls/2025 {"slashtag": "x*101"} 400
PUT urls/2025 {"slashtag": ""} 400
PUT urls/2025 {"slashtag": "b"} 400
PUT urls/2025 {"redirect_code": 305} 400
PUT urls/2025 {"redirect_code": "301"} 400
PUT urls/2025 {"password": "x*51"} 400
PUT urls/2025 {"password": null} 400
PUT urls/2025 {"domain_id": 4} 400
PUT urls/2025 {"destination": "no url"} 400

# Create a tag: its name is unique, and at most 25 characters; max_tags=2
POST tags {"name": "news"} 400
POST tags {"name": "é*26"} 400
POST tags {"name": ""} 400
POST tags {"name": 5} 400
POST tags {} 400
POST tags {"name": "new", "description": "x*256"} 400
POST tags [] 400
POST tags { 400
POST tags [*3000 400
POST tags {"name":"\\ud83d"} 400
POST tags {"name": "é*25", "description": "x*255"} 200
    {"id": 502, "name": "é*25", "description": "x*255", "createdAt": "2999-01-01 00:00:00"}
POST tags {"name": "one too many"} 429 maximum allowed number of tags
POST tags {"name": "news"} 400
GET tags?orderby=date&page=3&pagesize=1 200
    {"items": []}

# Statistics: a tag or up to 100 slashtags, and an offset
GET stats/alltime 400 Bad request. Tag and URL keys both can not be empty.
GET stats/alltime?url_keys=, 400 Bad request. Tag and URL keys both can not be empty.
GET stats/alltime?tag=nobody 400 Bad request. Tag does not exists.
GET stats/alltime?url_keys=,b*101 400
GET stats/alltime?url_keys=,b*100 200
GET stats/alltime?url_keys=a&timezone=02:00 400
GET stats/alltime?url_keys=a&timezone=+0200 400
GET stats/alltime?url_keys=a&timezone=+24:00 400
GET stats/alltime?url_keys=a&timezone=+01:60 400
GET stats/alltime?url_keys=%zz%&timezone=%ff 400
GET stats/alltime?tag=news&timezone=-03:30 200
    {"clicks_total": 3, "clicks_unique": 2, "clicks_repeated": 1, "languages": {},
        "clicks_breakdown": {"2023": {"12": 1}, "2024": {"1": 2}},
        "browser": {"Chrome": "3"}, "country": {"US": "3"}, "device": {"Desktop": "3"},
        "platform": {"Windows": "3"}, "referrer": {"Direct": 2, "blog": "1"}, "timezone": {"unknown.": "3"}}
GET stats/yearly?tag=news&year=2024 200
    {"clicks_total": 3, "clicks_breakdown": {"2024": {"1": 3}}}
GET stats/yearly?url_keys=b&year=2024 200
    {"clicks_total": 0, "clicks_breakdown": {}, "device": {}}
GET stats/yearly?tag=news 400
GET stats/yearly?tag=news&year=24 400
GET stats/yearly?tag=news&year=02024 400
GET stats/yearly?tag=news&year=0000 400

# A range is of at most 32 days and counts its end; a date is its whole day in its own offset
GET stats?url_keys=a&date_range=2024-01-01T00:00:00+00:00,2024-01-03T00:00:00+00:00 200
    {"total_clicks": 3, "clicks": {"2024-01-01": 2, "2024-01-03": 1}, "referrer": {"Direct": 2, "blog": "1"},
        "browser": {"Chrome": "3"}, "country": {"US": "3"}, "device": {"Desktop": "3"},
        "platform": {"Windows": "3"}}
GET stats?url_keys=a&date=2024-01-02T12:34:56+01:00 200
    {"total_clicks": 1}
GET stats?url_keys=a&date=2024-01-01T12:34:56+00:00 200
    {"total_clicks": 2}
GET stats?url_keys=a&date_range=2024-01-01T00:00:00+00:00,2024-02-02T00:00:00+00:00 200
GET stats?url_keys=a&date_range=2024-01-01T00:00:00+00:00,2024-02-02T00:00:01+00:00 400
GET stats?url_keys=a&date_range=2024-01-01T00:00:01+00:00,2024-01-01T00:00:00+00:00 400
GET stats?url_keys=a&date_range=2024-01-01T00:00:00+00:00 400
GET stats?url_keys=a&date_range=2024-01-01T00:00:00+00:00,yesterday 400 ISO 8601
GET stats?url_keys=a 400 Bad request. Date is required.
GET stats?url_keys=a&date=2024-01-01 400 Please provide date in ISO 8601 format.
GET stats?url_keys=a&date=2024-01-01T00:00:00 400 Date format is incorrect.
GET stats?url_keys=a&date=2024-01-01T00:00:00Z 400 Date format is incorrect.
GET stats?url_keys=a&date=2024-01-01%2000:00:00+00:00 400 Date format is incorrect.
GET stats?url_keys=a&date=2024-02-30T00:00:00+00:00 400 Date format is incorrect.
GET stats?url_keys=a&date=2024-01-01T24:00:00+00:00 400 Date format is incorrect.
GET stats?url_keys=a&date=2024-01-01T00:00:00+25:00 400 Date format is incorrect.

# Places of a country: the most clicked are named, the rest is Other; places=1
GET stats/country/geo?url_keys=a&iso_code=us&start_date=2024-01-01&end_date=2024-01-03 200
    {"state": {"Texas": "2", "Other": 1}, "city": {"unknown.": "3", "Other": 0},
        "postalcode": {"unknown.": "3", "Other": 0}}
GET stats/country/geo?url_keys=a&iso_code=US&start_date=2024-01-03&end_date=2024-01-03 200
    {"state": {"Ohio": "1", "Other": 0}}
GET stats/country/geo?url_keys=a&iso_code=DE&start_date=2024-01-01&end_date=2024-01-31 200
    {"state": {"Other": 0}}
GET stats/country/geo?url_keys=a&iso_code=USA&start_date=2024-01-01&end_date=2024-01-31 400
GET stats/country/geo?url_keys=a&start_date=2024-01-01&end_date=2024-01-31 400
GET stats/country/geo?url_keys=a&iso_code=US&start_date=2024-01-01 400 Bad request. Date is required.
GET stats/country/geo?url_keys=a&iso_code=US&start_date=20240101&end_date=2024-01-31 400 ISO 8601
GET stats/country/geo?url_keys=a&iso_code=US&start_date=2024-01-01&end_date=2024-01-32 400 ISO 8601
GET stats/country/geo?url_keys=a&iso_code=US&start_date=2024-02-01&end_date=2024-01-31 400

# Not shown: whether the end is counted; range_end=exclusive
GET stats?url_keys=a&date_range=2024-01-01T00:00:00+00:00,2024-01-03T00:00:00+00:00 200
    {"total_clicks": 2, "clicks": {"2024-01-01": 2}}
GET stats?url_keys=a&date_range=2024-01-01T00:00:00+00:00,2024-01-01T00:00:00+00:00 200
    {"total_clicks": 0}

# Not shown: whether one day has clicks; day_clicks=true
GET stats?url_keys=a&date=2024-01-01T00:00:00+00:00 200
    {"clicks": {"2024-01-01": 2}}

# Not shown: whether days and months without clicks are listed; zero_days=true
GET stats?url_keys=a&date_range=2024-01-01T00:00:00+00:00,2024-01-03T00:00:00+00:00 200
    {"clicks": {"2024-01-01": 2, "2024-01-02": 0, "2024-01-03": 1}}
GET stats/alltime?url_keys=a 200
    {"clicks_breakdown": {"2024": {"1": 3, "2": 0, "3": 0, "4": 0, "5": 0, "6": 0, "7": 0, "8": 0, "9": 0,
        "10": 0, "11": 0, "12": 0}}}

# Not shown: how an empty map is written; empty_maps=array
GET stats/alltime?url_keys=b 200
    {"clicks_total": 0, "clicks_breakdown": [], "languages": [], "timezone": [], "device": []}
GET stats?url_keys=b&date_range=2024-01-01T00:00:00+00:00,2024-01-03T00:00:00+00:00 200
    {"clicks": [], "device": []}

# Not shown: whether a slashtag that no link has is an error; unknown_keys=error
GET stats/alltime?url_keys=a,nobody 400
GET stats/alltime?url_keys=a 200

# Paths: those of the samples; paths=samples
GET stats/yearly?url_keys=a&year=2024 404
GET stats/alltime?url_keys=a 404
GET stats?url_keys=a&year=2023 200
    {"clicks_total": 0}
GET stats?url_keys=a 200
    {"clicks_total": 3}
GET stats?url_keys=a&date=2024-01-01T00:00:00+00:00 200
    {"total_clicks": 2}

# Paths: both; paths=both
GET stats/alltime?url_keys=a 200
GET stats?url_keys=a 200

# Not shown: other operations
GET urls/a 404
PUT urls/ {} 404
PUT urls/a/b {} 404
POST urls {} 404
DELETE urls/a 404
GET tags/501 404
GET stats/daily?url_keys=a 404
GET ../v2/urls 404
"""
TIMES = re.compile(r'"20(?:2[5-9]|[3-9]\d)-[^"]*"')
SCENES = dict(
    scene.split("\n", 1)
    for scene in re.sub(r"(,?\S)\*(\d+)", lambda m: m[1] * int(m[2]), DIALOGUES).split("\n# ")[1:]
)
REQUEST = re.compile(r"^(\w+) (\S+)(?: ([\[{].*?))? (\d{3})(?: (.+))?$((?:\n .*)*)", re.MULTILINE)


@pytest.mark.parametrize("title", SCENES)
async def test_a_request_is_answered_as_the_document_says(title: str) -> None:
    named = {"true": True, "1": 1, "2": 2}
    options = {name: named.get(value, value) for name, value in re.findall(r"(\w+)=(\w+)", title)}
    async with serving(**options) as call:
        fill(call.box)
        for method, target, body, status, told, data in REQUEST.findall(SCENES[title]):
            found = await answer(call, method, target, body, int(status), told)
            for name, value in json.loads(data or "{}").items():
                assert found["data"][name] == value, (target, name)
            if "paths=" not in title and (described := schema(method, target, status)) is not None:
                jsonschema.validate(found, described)


def fill(box: Sandbox) -> None:
    box.add_tag("news", description="d", created_at="2024-01-01")
    box.add_url("a", tag="news", redirect_code=302, domain_id=1, created_at="2024-01-01")
    for slashtag, domain, day in (("b", 0, 2), ("b", 2, 3), ("1000001", 0, 4), ("2024", 0, 5)):
        box.add_url(slashtag, domain_id=domain, created_at=f"2024-01-0{day}")
    box.add_click("a", "2024-01-01T00:00:00", visitor=1, state="Texas")
    box.add_click("a", "2024-01-01T23:59:59", visitor=1, state="Texas", referrer="blog")
    box.add_click("a", "2024-01-03T00:00:00", state="Ohio")


async def answer(call: Caller, method: str, target: str, body: str, status: int, told: str) -> Any:
    """Send a request, hold its answer to the conventions, and return it."""
    headers = {"Content-Type": "application/json"}
    reply = await call(method, f"/api/v1/{quote(target, safe='/?=&,%')}", data=body.encode(), headers=headers)
    found = json.loads(TIMES.sub('"2999-01-01 00:00:00"', json.dumps(reply.body)))
    assert (reply.status, found["status"]) == (status, status), (target, found)
    assert told in found["message"]
    if status == 200:
        assert found["message"] == "ok"
    else:
        assert found["data"] == ([] if target.startswith("stats") else None)
        assert status != 400 or found["message"].startswith("Bad request. ")
    return found


async def test_wrong_credentials_are_a_401_without_data() -> None:
    async with serving() as call:
        for path in ("urls", "tags", "stats", "stats/yearly", "stats/alltime", "stats/country/geo"):
            for wrong in ({"apikey": "x"}, {"apisecret": "x"}, {"apikey": ""}):
                reply = await call("GET", f"/api/v1/{path}", headers=wrong)
                assert reply.body == {
                    "status": 401,
                    "message": "Api key and secret is not valid or missing.",
                }


async def test_a_body_must_be_said_to_be_json() -> None:
    async with serving() as call:
        for kind in ("text/plain", "application/x-www-form-urlencoded"):
            headers = {"Content-Type": kind}
            assert (await call("POST", "/api/v1/tags", data=b'{"name": "x"}', headers=headers)).status == 400

"""Updating short URLs: what is sent, and what is refused before anything is."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from slashtag import (
    APIError,
    AuthenticationError,
    Change,
    InvalidRequestError,
    NotFoundError,
    Outcome,
    OutcomeUnknownError,
    RetryPolicy,
)
from slashtag.sandbox import Fault, Link, Sandbox
from tests.resources.accounts import scripted, serving
from tests.support import wire
from tests.support.sending import until


def link(box: Sandbox, key: str | int) -> Link:
    (found,) = [url for url in box.truth.urls() if key in (url.slashtag, url.id)]
    return found


@pytest.mark.parametrize("slashtag", ["a/../b", "%2F", "two words", "スペース"])
async def test_any_slashtag_reaches_the_service_intact(slashtag: str) -> None:
    async with serving() as (box, api):
        box.add_url(slashtag)
        other = box.add_url("other")
        assert await api.urls.update(slashtag, destination="https://new.example/") == 1
        assert link(box, slashtag).destination == "https://new.example/"
        assert link(box, other).destination != "https://new.example/"


NOT_REACHED = "black friday?x=1#a|a,b|a b|a\tb|a\u00a0b| a|a\n|a?|#a|100%|a%20b|a\\b|a\0|\x7f|.|..|a/../b|./a"


@pytest.mark.parametrize("slashtag", NOT_REACHED.split("|"))
async def test_a_slashtag_that_no_short_url_reaches_is_refused(slashtag: str) -> None:
    async with scripted(()) as (server, api):
        with pytest.raises(InvalidRequestError, match="slashtag"):
            await api.urls.update(1, slashtag=slashtag)
        with pytest.raises(InvalidRequestError, match="slashtag"):
            api.urls.update_many([Change("other", slashtag=slashtag)])
        assert server.requests == []


async def test_an_id_may_be_any_integer_that_the_service_gives() -> None:
    async with scripted([wire.ok({"rows_updated": 1})] * 4) as (server, api):
        ids = [1_234_567_890_123_456_789, 2**63, 2**64, 10**99]
        for id in ids:
            assert await api.urls.update(id, redirect_code=301) == 1
        assert [request.path.rpartition("/")[2] for request in server.requests] == list(map(str, ids))
        for id in (0, -1, 10**100):
            with pytest.raises(InvalidRequestError):
                await api.urls.update(id, redirect_code=301)


async def test_every_member_is_changed_and_only_those_given_are_sent() -> None:
    async with serving() as (box, api):
        id = box.add_url("spring")
        changes: dict[str, Any] = {
            "destination": "https://new.example/",
            "slashtag": "summer",
            "redirect_code": 307,
            "password": "open sesame",
            "domain_id": 2,
        }
        for name, value in changes.items():
            await api.urls.update(id, **{name: value})
        changed = link(box, id)
        assert {name: getattr(changed, name) for name in changes} == changes
        assert [arrival.body for arrival in box.requests] == [
            b'{"destination":"https://new.example/"}',
            b'{"slashtag":"summer"}',
            b'{"redirect_code":307}',
            b'{"password":"open sesame"}',
            b'{"domain_id":2}',
        ]
        await api.urls.update(id, password="", domain_id=0)
        assert (link(box, id).password, link(box, id).domain_id) == ("", 0)


REFUSED: dict[str, list[Any]] = {
    "destination": ["", 5, "https://\ud800", "www.example.com", "https://a.example/ b"],
    "slashtag": ["", "x" * 101],
    "redirect_code": [305],
    "password": ["x" * 51, 314159],
    "domain_id": [-1],
}


@pytest.mark.parametrize("name", REFUSED)
async def test_what_the_document_does_not_allow_is_refused_before_sending(name: str) -> None:
    async with scripted(()) as (server, api):
        for value in REFUSED[name]:
            with pytest.raises(InvalidRequestError):
                await api.urls.update("a", **{name: value})
        for key, members in (("a", {}), ("123", {"redirect_code": 301}), ("..", {"redirect_code": 301})):
            with pytest.raises(InvalidRequestError):
                await api.urls.update(key, **members)
        assert server.requests == []


# --- many at once ---------------------------------------------------------------------------------------


async def test_the_outcome_of_every_change_is_told_and_a_failure_costs_itself_only() -> None:
    async with serving(session={"concurrency": 4}, latency=0.001) as (box, api):
        keys = [f"s{n}" for n in range(30)]
        for key in keys:
            box.add_url(key)
        changes = [Change(key, redirect_code=307) for key in [*keys, "nobody"]]
        progress = Mock()
        outcomes = [outcome async for outcome in api.urls.update_many(changes, progress=progress)]
        assert {outcome.change.key: outcome.status for outcome in outcomes} == {
            **dict.fromkeys(keys, "done"),
            "nobody": "failed",
        }
        (failed,) = [outcome for outcome in outcomes if outcome.error is not None]
        assert isinstance(failed.error, NotFoundError)
        assert sum(outcome.rows_updated or 0 for outcome in outcomes) == 30
        assert {url.redirect_code for url in box.truth.urls()} == {307}
        assert [each.args for each in progress.mock_calls] == [(n, 31) for n in range(1, 32)]
        assert max(arrival.in_flight for arrival in box.requests) <= 4


async def test_a_change_that_changed_no_link_is_told_as_unknown() -> None:
    async with scripted(wire.ok({"rows_updated": 0})) as (_, api):
        (outcome,) = [each async for each in api.urls.update_many([Change("spring", redirect_code=301)])]
    assert (outcome.status, outcome.rows_updated) == ("unknown", 0)
    assert isinstance(outcome.error, OutcomeUnknownError)


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        *((kind, "unknown") for kind in ("reset", "502", "html-504", "truncated-json", "truncated-body")),
        *((kind, "failed") for kind in ("500", "503", "400")),
    ],
)
@pytest.mark.parametrize(
    "change",
    [
        Change("spring", redirect_code=307),
        Change(1_000_001, slashtag="summer"),
        Change("spring", slashtag="summer"),
    ],
    ids=str,
)
async def test_one_of_many_changes_is_sent_once_whatever_becomes_of_it(
    change: Change, kind: str, status: str
) -> None:
    is_lost = status == "unknown"
    fault = Fault(kind=kind, after_work=is_lost, times=1)
    async with serving(session={"retry": RetryPolicy(backoff_base=0)}, faults=[fault]) as (box, api):
        assert box.add_url("spring") == 1_000_001
        (outcome,) = [outcome async for outcome in api.urls.update_many([change])]
    assert (outcome.status, len(box.requests)) == (status, 1)
    assert isinstance(outcome.error, OutcomeUnknownError if is_lost else APIError)
    assert outcome.error.attempts == 1


async def test_what_becomes_of_each_of_many_changes_is_told_as_soon_as_it_is_known() -> None:
    """Also if nobody reads it."""
    async with serving(session={"concurrency": 2}) as (box, api):
        ids = [box.add_url(f"s{n}") for n in range(10)]
        told = list[Outcome]()
        outcomes = api.urls.update_many([Change(id, redirect_code=301) for id in ids], after=told.append)
        await anext(outcomes)
        await until(lambda: len(told) == 10)
        await outcomes.aclose()
        assert {(each.change.key, each.status) for each in told} == {(id, "done") for id in ids}


async def test_wrong_credentials_end_the_changing_of_many() -> None:
    told = list[Outcome]()
    async with serving(session={"apikey": "w" * 20, "concurrency": 3}) as (box, api):
        changes = (Change(n, redirect_code=301) for n in range(1, 100))
        outcomes = api.urls.update_many(changes, after=told.append)
        with pytest.raises(AuthenticationError):
            await anext(outcomes)
        assert [outcome async for outcome in outcomes] == []
        assert len(box.requests) <= 6
    assert {type(each.error) for each in told} == {AuthenticationError}


@pytest.mark.parametrize(
    "changes",
    [
        [Change("a", redirect_code=301), Change("b")],
        [Change("a", redirect_code=301), Change("a", redirect_code=302)],
        [Change("a", slashtag="c"), Change("b", slashtag="c")],
        [Change("a", slashtag="b"), Change("b", slashtag="c")],
        [Change("b", slashtag="c"), Change("a", slashtag="b")],
    ],
)
async def test_changes_that_are_wrong_or_about_one_link_are_refused_before_the_first_is_sent(
    changes: list[Change],
) -> None:
    async with scripted(()) as (server, api):
        with pytest.raises(InvalidRequestError, match="change 2"):
            api.urls.update_many(changes)
        assert [outcome async for outcome in api.urls.update_many([])] == []
        assert server.requests == []

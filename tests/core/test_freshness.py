"""Who may give an answer: what is sent, what a journal does, and which answers are too old, by one table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict, replace
from multidict import CIMultiDict

from slashtag import UnexpectedResponseError
from slashtag._core.call import Call
from slashtag._core.freshness import ANOTHER_CONNECTION, ANY, MADE_ON_REQUEST, PAST_CACHES, Freshness
from slashtag._core.response import check_age
from slashtag._journal.journal import Journal

from ..support.sending import connect
from ..support.wire import Wire, ok

#: The header, whether a pooled connection is used, and whether a journal replays.
TABLE: list[tuple[Freshness, str | None, bool, bool]] = [
    (ANY, None, True, True),
    (PAST_CACHES, "no-cache", True, True),
    (ANOTHER_CONNECTION, "no-cache", False, True),
    (MADE_ON_REQUEST, "no-cache", False, False),
    (ANY.again, "no-cache", False, False),
    (PAST_CACHES.again, "no-cache", False, False),
]
VALUES = [freshness for freshness, *_ in TABLE]
values = st.sampled_from(VALUES)
NOON = 1_700_000_000.0


def call(freshness: Freshness, period_end: float | None = None) -> Call[Any]:
    params = (("url_keys", "spring"),)
    return Call(
        method="GET",
        path="stats",
        params=params,
        returns=object,
        replayable=True,
        freshness=freshness,
        period_end=period_end,
    )


@pytest.mark.parametrize("is_given", [False, True], ids=["own session", "given session"])
@pytest.mark.parametrize(("freshness", "header", "is_pooled", "_"), TABLE)
async def test_what_a_request_sends_and_over_which_connection(
    freshness: Freshness, header: str | None, is_pooled: bool, _: bool, is_given: bool
) -> None:
    async with (
        Wire(ok({})) as wire,
        aiohttp.ClientSession() as http,
        connect(wire, http=http if is_given else None) as session,
    ):
        await session._sender.send(call(ANY))
        await session._sender.send(call(freshness))
        # Of two connections the one before is not used again.
        await session._sender.send(call(ANY))
    first, second, third = wire.requests
    assert second.headers.get("cache-control") == header
    assert (second.connection == first.connection) is is_pooled
    assert third.connection == second.connection


async def kept_for(path: Path, *answers: tuple[Freshness, bytes]) -> Journal:
    """Return the journal of a second run, after one that had these answers."""
    first = Journal(path, "http://127.0.0.1:1/api/v1/", "freshnessapikey01", 3600.0)
    await first.start()
    for freshness, body in answers:
        first.keep(call(freshness), None, body)
    await first.aclose()
    second = Journal(path, "http://127.0.0.1:1/api/v1/", "freshnessapikey01", 3600.0)
    await second.start()
    return second


async def test_a_journal_replays_answers_to_the_same_and_none_to_a_second_request(tmp_path: Path) -> None:
    replays = {freshness: replays for freshness, *_, replays in TABLE}
    for n, before in enumerate(VALUES):
        journal = await kept_for(tmp_path / f"{n}.journal", (before, b"{}"))
        for now in VALUES:
            is_alike = (before in (ANY, ANY.again)) == (now in (ANY, ANY.again))
            assert (journal.find(call(now)) is not None) is (replays[now] and is_alike), (before, now)
        await journal.aclose()


@pytest.mark.parametrize("freshness", [ANY, PAST_CACHES, ANOTHER_CONNECTION])
async def test_a_second_answer_replaces_the_first_in_a_journal(tmp_path: Path, freshness: Freshness) -> None:
    journal = await kept_for(tmp_path / "job.journal", (freshness, b"first"), (freshness.again, b"second"))
    found = journal.find(call(freshness))
    assert found is not None
    assert found.body == b"second"
    await journal.aclose()


def is_too_old(asked: Call[Any], age: int, made: float | None) -> bool:
    try:
        check_age(asked, CIMultiDict({"Age": str(age)}), made, NOON, NOON + 0.1)
    except UnexpectedResponseError:
        return True
    return False


seconds = st.integers(-2_000, 2_000)


@given(values, st.none() | seconds, st.none() | seconds, st.integers(0, 2_000))
def test_a_second_answer_may_be_as_old_as_the_first(
    freshness: Freshness, made: int | None, ends: int | None, age: int
) -> None:
    made_at = None if made is None else NOON + made
    asked = call(freshness, None if ends is None else NOON + ends)
    assert is_too_old(asked, age, made_at) == is_too_old(asked.again(), age, made_at)
    assert not is_too_old(replace(asked, freshness=ANY), age, made_at)
    # What is made on request is no less.
    on_request = is_too_old(replace(asked, freshness=MADE_ON_REQUEST), age, made_at)
    assert on_request == (age > 1 or (made_at is not None and made_at + age < NOON - 300))


@given(values)
def test_a_second_request_differs_in_freshness_alone(freshness: Freshness) -> None:
    first = call(freshness, NOON)
    second = first.again()
    assert second == first.again().again()
    assert {name for name, value in asdict(first).items() if value != asdict(second)[name]} <= {"freshness"}
    assert second.freshness.is_apart == freshness.is_apart

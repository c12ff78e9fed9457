"""Records with members in another form than documented: no record is lost, and it is said."""

from __future__ import annotations

import logging
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from slashtag import DateRange, UnexpectedResponseError, Year
from slashtag.export import NAMED_URLS, export_urls
from slashtag.tables import open_table
from tests.resources.accounts import scripted
from tests.support import wire

TIME = "2024-05-01 10:00:00"
USUAL = {"slashtag": "s", "hits": 3, "createdAt": TIME, "updatedAt": TIME}
DAYS = DateRange("2024-05-01", "2024-05-01")


def account(odd: dict[str, Any], broken: bytes = b"?", prefix: bytes = b"") -> wire.Script:
    """Serve three links, of which the second is odd, and a click of each slashtag.

    Bodies begin with `prefix` and have `broken` in the place of each "?".
    """
    links = [{"id": n, **USUAL, "slashtag": f"s{n}", **(odd if n == 2 else {})} for n in (1, 2, 3)]

    def answer(request: wire.Request) -> wire.Answer:
        data: dict[str, Any] = {"page": 1, "pageSize": 500, "items": []}
        if request.path.endswith("/urls"):
            data["items"] = links
        elif not request.path.endswith("/tags"):
            data = {"total_clicks": len(request.query["url_keys"][0].split(","))}
        return wire.response(200, prefix + wire.body_of(200, "ok", data).replace(b"?", broken))

    return answer


@pytest.mark.parametrize(
    ("odd", "name", "expected"),
    [
        ({"updatedAt": "0000-00-00 00:00:00"}, "updated_at", None),
        ({"updatedAt": ""}, "updated_at", None),
        ({"updatedAt": 1714557600}, "updated_at", None),
        ({"createdAt": None}, "created_at", None),
        ({"createdAt": "2024-05-01T12:00:00Z"}, "created_at", datetime(2024, 5, 1, 12)),
        ({"createdAt": "2024-05-01 12:00:00+02:00"}, "created_at", datetime(2024, 5, 1, 12)),
        ({"hits": "1,234"}, "hits", None),
        ({"hits": None}, "hits", None),
        ({"redirectCode": {}}, "redirect_code", None),
        ({"tagId": ""}, "tag_id", None),
        ({"slashtag": 2024}, "slashtag", None),
    ],
)
async def test_an_odd_record_hides_nothing(
    odd: dict[str, Any], name: str, expected: object, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    (given,) = odd.values()
    unreadable = int(given is not None and expected is None)
    async with scripted(account(odd)) as (_, api):
        with caplog.at_level(logging.WARNING):
            links = await api.urls.list().to_list()
            await api.urls.list().to_list()
        assert [link.id for link in links] == [1, 2, 3]
        assert getattr(links[1], name) == expected
        assert api.metrics.unreadable == 2 * unreadable
        assert len(caplog.records) == unreadable

        stats = await api.stats.collect(DAYS, keys=api.urls.list())
        assert (stats.total, stats.complete) == ((3, True) if links[1].slashtag else (2, False))
        keys = sorted(links, key=lambda link: -(link.hits or 0))
        failures: list[Any] = []
        each = await api.stats.collect_each(DAYS, keys=keys, on_error=failures.append).to_dict()
        assert len(each) + len(failures) == 3
        assert sum(clicks.total for clicks in each.values()) == stats.total

        with open_table(tmp_path / "links.xlsx", NAMED_URLS) as file:
            assert (await export_urls(api, file)).rows == 3


@pytest.mark.parametrize("broken", [rb"\ud83d", b"\xe9", b"\x00"])
@pytest.mark.parametrize("name", ["destination", "slashtag"])
async def test_a_text_that_is_not_unicode_hides_nothing(
    broken: bytes, name: str, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    async with scripted(account({name: "a?"}, broken), journal=tmp_path / "job") as (_, api):
        with caplog.at_level(logging.WARNING):
            links = await api.urls.list().to_list()
        assert [(link.id, link.hits) for link in links] == [(1, 3), (2, 3), (3, 3)]
        assert getattr(links[1], name) == (None if name == "slashtag" else "a\ufffd")
        assert (api.metrics.unreadable, api.metrics.retries, len(caplog.records)) == (1, 0, 1)
        assert "ShortUrl 2" in caplog.text
        stats = await api.stats.collect(DAYS, keys=links)
        # Under another slashtag its clicks would be those of another link, or of none.
        assert (stats.total, stats.complete) == ((2, False) if name == "slashtag" else (3, True))


async def test_labels_that_are_not_unicode_are_counted_and_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    labels = b'{"caf\xe9": "2", "caf\xe8": 1, "\\ud83d": 1, "Direct": 1}'
    maps = b", ".join(b'"%b": {"x": 5}' % name for name in (b"device", b"browser", b"platform", b"country"))
    data = b'{"status": 200, "message": "ok", "data": {"total_clicks": 5, "referrer": %b, %b}}' % (
        labels,
        maps,
    )
    async with scripted(lambda _: wire.response(200, data)) as (_, api):
        with caplog.at_level(logging.WARNING):
            stats = await api.stats.collect(DAYS, keys=["a"])
        assert (stats.total, stats.referrer) == (5, {"caf\ufffd": 3, "\ufffd": 1, "Direct": 1})
        assert (stats.reconciles, api.metrics.unreadable) == (True, 1)
        assert "cannot be read" in caplog.text


async def test_without_an_id_a_record_cannot_be_told_from_others() -> None:
    async with scripted(account({"id": None})) as (_, api):
        with pytest.raises(UnexpectedResponseError):
            await api.urls.list().to_list()


@pytest.mark.parametrize(("unique", "repeated"), [(3, 1), (2, 2), (0, 0), (9, -4), (-1, 6)])
async def test_unique_and_repeated_clicks_of_one_answer_that_do_not_add_up_are_counted(
    unique: int, repeated: int
) -> None:
    maps = {name: {"x": 5} for name in ("device", "browser", "platform", "country", "referrer", "timezone")}

    def answer(request: wire.Request) -> wire.Answer:
        is_odd = "k0" in request.query["url_keys"][0].split(",")
        numbers = (unique, repeated) if is_odd else (3, 2)
        counts = dict(zip(("clicks_unique", "clicks_repeated"), numbers, strict=True))
        return wire.ok({"clicks_total": 5, "clicks_breakdown": {"2024": {"1": 5}}, **counts, **maps})

    async with scripted(answer) as (server, api):
        stats = await api.stats.collect(Year(2024), keys=[f"k{n}" for n in range(200)])
        assert (stats.clicks_total, stats.reconciles, stats.complete) == (10, False, False)
        # Each batch once: an answer that contradicts itself is told and counted, and not asked again.
        assert (len(server.requests), api.metrics.inconsistent) == (2, 1)


async def test_months_may_have_a_leading_zero() -> None:
    months = {"clicks_total": 5, "clicks_unique": 5, "clicks_repeated": 0}
    breakdown = {"2024": {"01": 2, "12": 3}}
    async with scripted(lambda _: wire.ok({**months, "clicks_breakdown": breakdown})) as (_, api):
        stats = await api.stats.collect(Year(2024), keys=["a"])
    assert stats.clicks_breakdown == {2024: {1: 2, 12: 3}}
    assert stats.reconciles

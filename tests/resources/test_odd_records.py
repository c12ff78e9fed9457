"""Records with members in another form than documented: no record is lost, and it is said."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from slashtag import DateRange, UnexpectedResponseError
from slashtag.export import NAMED_URLS, export_urls
from slashtag.tables import open_table
from tests.resources.accounts import scripted
from tests.support import wire
from tests.support.tables import cells

TIME = "2024-05-01 10:00:00"
USUAL = {"slashtag": "s", "hits": 3, "createdAt": TIME, "updatedAt": TIME}
DAYS = DateRange("2024-05-01", "2024-05-01")


def account(odd: dict[str, Any]) -> wire.Script:
    """Serve three links, of which the second is odd, and a click of each slashtag."""
    links = [{"id": n, **USUAL, "slashtag": f"s{n}", **(odd if n == 2 else {})} for n in (1, 2, 3)]

    def answer(request: wire.Request) -> wire.Answer:
        data: dict[str, Any] = {"page": 1, "pageSize": 500, "items": []}
        if request.path.endswith("/urls"):
            data["items"] = links
        elif not request.path.endswith("/tags"):
            data = {"total_clicks": len(request.query["url_keys"][0].split(","))}
        return wire.ok(data)

    return answer


#: A member of the second link, and the attribute that it becomes.
ODD = """
{"updatedAt": "0000-00-00 00:00:00"}  | updated_at
{"updatedAt": ""}                     | updated_at
{"updatedAt": 1714557600}             | updated_at
{"createdAt": null}                   | created_at
{"createdAt": "2024-05-01T12:00:00Z"} | created_at
{"hits": "1,234"}                     | hits
{"hits": null}                        | hits
{"redirectCode": {}}                  | redirect_code
{"tagId": ""}                         | tag_id
{"slashtag": 2024}                    | slashtag
"""


@pytest.mark.parametrize(("member", "name"), cells(ODD))
async def test_an_odd_record_hides_nothing(
    member: str, name: str, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    odd = json.loads(member)
    (given,) = odd.values()
    unreadable = int(given is not None)
    async with scripted(account(odd)) as (_, api):
        with caplog.at_level(logging.WARNING):
            links = await api.urls.list().to_list()
            await api.urls.list().to_list()
        assert [link.id for link in links] == [1, 2, 3]
        assert getattr(links[1], name) is None
        assert api.metrics.unreadable == 2 * unreadable
        assert len(caplog.records) == unreadable

        stats = await api.stats.collect(DAYS, keys=api.urls.list())
        assert (stats.total, stats.complete) == ((3, True) if links[1].slashtag else (2, False))
        keys = sorted(links, key=lambda link: -(link.hits or 0))
        failures = list[Any]()
        each = await api.stats.collect_each(DAYS, keys=keys, on_error=failures.append).to_dict()
        assert len(each) + len(failures) == 3
        assert sum(clicks.total for clicks in each.values()) == stats.total

        with open_table(tmp_path / "links.xlsx", NAMED_URLS) as file:
            assert (await export_urls(api, file)).rows == 3


async def test_without_an_id_a_record_cannot_be_told_from_others() -> None:
    async with scripted(account({"id": None})) as (_, api):
        with pytest.raises(UnexpectedResponseError):
            await api.urls.list().to_list()

"""A service of which four answers of ten fail gives the same answers, exactly."""

from __future__ import annotations

from slashtag import AllTime, DateRange
from slashtag.sandbox import Fault, Sandbox
from tests.resources.accounts import Account, client, counts, period

KINDS = [
    "500",
    "503",
    "504",
    "html-502",
    "html-200",
    "envelope-500",
    "truncated-json",
    "truncated-body",
    "reset",
    "stall",
]


def failed(box: Sandbox) -> int:
    return sum(arrival.fault is not None for arrival in box.requests)


async def test_all_kinds_at_once_change_no_listing_no_sum_and_no_table(account: Account) -> None:
    faults = [Fault(kind=kind, share=0.04) for kind in KINDS]
    async with account.serve(faults=faults, latency=0.001) as box, client(box, timeout=0.5) as api:
        query = DateRange("2024-01-01", "2024-12-31")
        stats = await api.stats.collect(query, keys=api.urls.list(pagesize=100))
        assert counts(stats) == counts(box.truth.range(query.start, query.end))
        every = await api.stats.collect(AllTime(), keys=account.keys[:100])
        assert period(every) == period(box.truth.alltime(keys=account.keys[:100]))
        links = [url.id async for url in api.urls.list(pagesize=75)]
        assert links == [url.id for url in box.truth.urls()]
        each = api.stats.collect_each(query, keys=account.keys[:6], ordered=True)
        truth = box.truth.per_key(query.start, query.end, keys=account.keys[:6])
        assert [(key, counts(stats)) async for key, stats in each] == [
            (key, counts(truth[key])) for key in account.keys[:6]
        ]
        assert failed(box) > 20
        assert (
            max(arrival.in_flight for arrival in box.requests) <= 32 + 10
        )  # those that the client gave up are still under way there

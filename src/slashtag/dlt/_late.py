"""Late clicks of a load: links whose hits rose, compared with the destination before the days it requests."""

from collections.abc import Collection, Mapping
from datetime import timedelta, tzinfo
from typing import Any

from dlt.common.destination.exceptions import SqlClientNotAvailable
from msgspec.structs import replace

from .. import AsyncSession, ShortUrl
from .._internal import DAY, UncachedStatistics
from ._compare import Comparison, counted_days
from ._held import held_at
from ._records import Listed, Monitor, Reload, TableRecord


async def find_late(
    given: Reload,
    record: TableRecord,
    listed: Listed,
    session: AsyncSession,
    pipeline: Any,
    *,
    zone: tzinfo,
    lookback: timedelta,
    monitor: Monitor,
) -> Reload:
    """Return what a load was told to load again, and the days of late clicks.

    `record` is what the destination holds of clicks by day. A link whose `hits` have not changed has none. Of
    the others, two requests for a hundred say whether months before the days that a load requests are what
    the destination holds; a month that differs is taken apart, see `_compare.py`.
    """
    today = listed.now.astimezone(zone).date()
    last = min(record.through, today) - lookback - DAY
    suspects = {
        key: _links(key, series.ids, series.hits)
        for key, series in listed.series.items()
        if (before := record.series.get(key)) is not None
        and before.ids == series.ids
        and before.hits != series.hits
    }
    if not suspects or last < record.since:
        return given
    try:
        held = held_at(pipeline)
    except SqlClientNotAvailable:
        return given
    comparison = Comparison(
        UncachedStatistics(session.stats),
        held,
        suspects,
        (record.since, last),
        zone,
        raises=monitor.on_error is None,
    )
    await comparison.run(tests=False)
    doubtful = set[str]()
    for each in comparison.unproved:
        doubtful.update(each.slashtags)
        monitor.note("late clicks", str(each), each.slashtags)
    found = counted_days(comparison.differences)
    return replace(given, days=found, tag_ids=_tag_ids(listed, found), doubtful=doubtful)


def _links(key: str, ids: Collection[int], hits: int | None) -> list[ShortUrl]:
    """Return the links of a slashtag; the first has the hits of all."""
    return [ShortUrl(id=id, slashtag=key, hits=0 if n else hits) for n, id in enumerate(ids)]


def _tag_ids(listed: Listed, slashtags: Collection[str]) -> Mapping[str, Collection[int]]:
    """Return the ids of the tags of the links of slashtags."""
    found: dict[str, set[int]] = {}
    if slashtags:
        for row in listed.table.select(["slashtag", "tag_id"]).to_pylist():
            if row["slashtag"] in slashtags and row["tag_id"] is not None:
                found.setdefault(row["slashtag"], set()).add(row["tag_id"])
    return found

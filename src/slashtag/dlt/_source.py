"""The dlt source: five resources over one session."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from datetime import date
from functools import partial
from typing import Any

import dlt

from .. import AsyncSession, DateRange, InvalidRequestError, parse_zone
from ._account import Account, Monitor
from ._clicks import ClicksTable, Listing

#: Dimensions of statistics of a range of days.
DIMENSIONS = ("device", "browser", "platform", "country", "referrer")

#: A load has no row twice: to look for such rows would take DuckDB as much memory as all rows at once.
MERGE: Any = {"disposition": "merge", "strategy": "delete-insert", "deduplicated": True}


@dlt.source(name="slashtag", section="slashtag")
def slashtag_source(
    base_url: str | None = None,
    apikey: dlt.TSecretStrValue | None = None,
    apisecret: dlt.TSecretStrValue | None = None,
    since: str | date = "",
    lookback: int = 3,
    timezone: str = "+00:00",
    dimensions: Iterable[str] = (),
    by_tag: bool = False,
    session_options: Mapping[str, Any] | None = None,
    monitor: Any = None,
) -> Iterable[Any]:
    """Links, tags and clicks of an account, loaded incrementally.

    Resources and their keys: `links` and `tags` replace their tables. `clicks_daily` (slashtag, date) has the
    clicks of each link and day from `since` on, including zeros; `final` is false for a day that was not
    over. With `by_tag`, `clicks_by_tag` (tag, date) has the same for each tag. With `dimensions`, some of
    device, browser, platform, country and referrer, `clicks_by_dimension` (slashtag, month, dimension, label)
    has the clicks of each label in each month, given by its first day.

    The first load requests all days. Later ones request days that were not over, the `lookback` days before,
    for late clicks, and new links, or slashtags that other links have now, from `since`; only rows that
    differ are loaded. Rows of slashtags that no link has any more stay. dlt's state at the destination keeps
    the ids and hits of each slashtag and its clicks of the last days. An interrupted load continues with the
    journal in the pipeline's folder.

    `timezone` is "+HH:MM" or the name of a zone. `session_options` are those of AsyncSession. Raises
    ConfigurationError if the destination holds days of another timezone or service, or if this machine's
    clock and the `Date` of the service's answers are more than a day apart, and errors of
    `session.stats.collect_each`, both wrapped by dlt: `load` unwraps them. See docs/service.md, List short
    URLs; Statistics for a date or date range.
    """
    first, _ = DateRange(since, since).bounds
    chosen = tuple(dimensions)
    unknown = [name for name in chosen if name not in DIMENSIONS]
    if unknown:
        raise InvalidRequestError(f"no dimension {unknown[0]!r}: there are {', '.join(DIMENSIONS)}")
    parse_zone(timezone)  # refused before anything is sent
    monitor = monitor or Monitor()
    account = Account(
        monitor, base_url=base_url, apikey=apikey, apisecret=apisecret, **(session_options or {})
    )

    def listing(name: str, listed: Listing) -> Any:
        async def tables(session: AsyncSession) -> AsyncGenerator[Any, None]:
            yield (await listed(session)).table

        def resource() -> Iterator[Any]:
            yield from account.iterate(tables)

        return dlt.resource(resource, name=name, write_disposition="replace")

    def clicks(name: str, listed: Listing, key: tuple[str, ...], dimensions: tuple[str, ...] = ()) -> Any:
        def resource() -> Iterator[Any]:
            state = dlt.current.resource_state(name)
            table = ClicksTable(name, key, state, first, lookback, timezone, monitor, dimensions)
            yield from account.iterate(partial(table.tables, listed))

        # Of clicks by dimension all rows of a month are replaced: a label may be gone, or all of them.
        replaced: Any = (
            {"merge_key": ("slashtag", "month"), "columns": {"deleted": {"hard_delete": True}}}
            if dimensions
            else {}
        )
        return dlt.resource(resource, name=name, write_disposition=MERGE, primary_key=key, **replaced)

    yield listing("links", account.links)
    yield listing("tags", account.tags)
    yield clicks("clicks_daily", account.links, ("slashtag", "date"))
    if by_tag:
        yield clicks("clicks_by_tag", account.tags, ("tag", "date"))
    if chosen:
        key = ("slashtag", "month", "dimension", "label")
        yield clicks("clicks_by_dimension", account.links, key, chosen)

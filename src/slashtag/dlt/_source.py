"""The dlt source: five resources over one session."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from datetime import date
from functools import partial
from importlib import import_module
from typing import Any
from zoneinfo import ZoneInfo

import dlt

from .. import AsyncSession, InvalidRequestError
from .._internal import parse_zone
from ..export import TAGS, URLS, Table, arrow_schema, tag_row, url_row
from ._account import Account, check_state
from ._daily import DailyClicks
from ._monitor import Monitor
from ._monthly import MonthlyDimensions

arrow: Any = import_module("pyarrow")

#: Dimensions of statistics of a range of days.
DIMENSIONS = ("device", "browser", "platform", "country", "referrer")

#: A load has no row twice: to look for such rows would take DuckDB as much memory as all rows at once.
_MERGE: Any = {"disposition": "merge", "strategy": "delete-insert", "deduplicated": True}


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
    clicks of each link and day since `since`, zeros too; `final` is false for a day that was not over. With
    `by_tag`, `clicks_by_tag` (tag, date) has the same of each tag. With `dimensions`, some of device,
    browser, platform, country and referrer, `clicks_by_dimension` (slashtag, month, dimension, label) has the
    clicks of each label in each month, whose `month` is its first day.

    The first load requests all days. Later ones request those that were not over, `lookback` days before in
    which clicks may still arrive, and new links from `since`; only rows that differ are passed on. Rows of
    links that have vanished stay. What the last load saw is kept in dlt's state at the destination: the hits
    of each link and its clicks of the last days. A load that was interrupted goes on with the journal in the
    pipeline's folder.

    `timezone` is "+HH:MM" or the name of a zone. `session_options` are those of AsyncSession. Raises
    ConfigurationError where the destination holds days of another timezone or service, otherwise as
    `session.stats.collect_each`, both wrapped by dlt: `load` unwraps them (List short URLs, Statistics for a
    date or date range).
    """
    first = _first_day(since)
    unknown = [name for name in dimensions if name not in DIMENSIONS]
    if unknown:
        raise InvalidRequestError(f"no dimension {unknown[0]!r}: there are {', '.join(DIMENSIONS)}")
    monitor = monitor or Monitor()
    account = Account(base_url, apikey, apisecret, session_options or {}, monitor)
    chosen = tuple(dimensions)
    zone = parse_zone(timezone if timezone[:1] in ("+", "-") else _named_zone(timezone))

    @dlt.resource(name="links", write_disposition="replace")
    def links() -> Iterator[Any]:
        async def table(session: AsyncSession) -> AsyncGenerator[Any, None]:
            yield _table(URLS, map(url_row, await account.links(session)))

        with account:
            yield from account.iterate(table)

    @dlt.resource(name="tags", write_disposition="replace")
    def tags() -> Iterator[Any]:
        async def table(session: AsyncSession) -> AsyncGenerator[Any, None]:
            yield _table(TAGS, map(tag_row, await account.tags(session)))

        with account:
            yield from account.iterate(table)

    @dlt.resource(name="clicks_daily", write_disposition=_MERGE, primary_key=("slashtag", "date"))
    def clicks_daily() -> Iterator[Any]:
        state = dlt.current.resource_state("clicks_daily")
        check_state(state, timezone, base_url)
        clicks = DailyClicks("clicks_daily", "slashtag", state, first, lookback, zone, monitor)
        with account:
            yield from account.iterate(partial(clicks.tables, account.hits))

    @dlt.resource(name="clicks_by_tag", write_disposition=_MERGE, primary_key=("tag", "date"))
    def clicks_by_tag() -> Iterator[Any]:
        state = dlt.current.resource_state("clicks_by_tag")
        check_state(state, timezone, base_url)
        clicks = DailyClicks("clicks_by_tag", "tag", state, first, lookback, zone, monitor)
        with account:
            yield from account.iterate(partial(clicks.tables, account.tag_names))

    @dlt.resource(
        name="clicks_by_dimension",
        write_disposition=_MERGE,
        primary_key=("slashtag", "month", "dimension", "label"),
        merge_key=("slashtag", "month"),
    )
    def clicks_by_dimension() -> Iterator[Any]:
        state = dlt.current.resource_state("clicks_by_dimension")
        check_state(state, timezone, base_url)
        clicks = MonthlyDimensions(state, first, lookback, zone, chosen, monitor)
        with account:
            yield from account.iterate(partial(clicks.tables, account.hits))

    found: list[Any] = [links, tags, clicks_daily]
    if by_tag:
        found.append(clicks_by_tag)
    if chosen:
        found.append(clicks_by_dimension)
    return found


def _first_day(since: str | date) -> date:
    try:
        return since if isinstance(since, date) else date.fromisoformat(since)
    except ValueError:
        raise InvalidRequestError(f"since is the first day, YYYY-MM-DD, not {since!r}") from None


def _named_zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise InvalidRequestError(
            f"no time zone {name!r}: give +HH:MM or a name such as Europe/Berlin"
        ) from None


def _table(table: Table, rows: Iterable[tuple[Any, ...]]) -> Any:
    columns = list(zip(*rows, strict=True)) or [()] * len(table.columns)
    return arrow.table([list(column) for column in columns], schema=arrow_schema(table))

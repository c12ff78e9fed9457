"""Loads, which bring a warehouse up to date, and audits, which only say what differs."""

from collections.abc import Callable, Collection, Iterable, Iterator, Set
from datetime import UTC, date, datetime
from functools import partial
from operator import attrgetter
from time import monotonic
from typing import Any, NamedTuple, Self

from msgspec import Struct

from .. import (
    AsyncSession,
    ConfigurationError,
    DateRange,
    ExportError,
    InvalidRequestError,
    OnError,
    RangeStats,
    __version__,
    parse_zone,
)
from ._account import ID, SLASHTAG, Account
from ._reconcile import DAY, Comparison, Found
from ._tables import TABLES, Replacement, Row, Span
from ._warehouse import Warehouse

#: Called with the name of what is read or compared, what is done of it, and all of it (None: not known).
TableProgress = Callable[[str, int, int | None], object]
#: Version of the tables.
FORMAT = 2
#: Names of missing links that a row of `loads` has, at most.
MOST_NAMES = 100
#: Rows that are written at once.
MOST_ROWS = 20_000
_tag_row = attrgetter(*TABLES["tags"])


class Load(Struct, frozen=True, kw_only=True):
    """Result of a load: the days from `since` to `through` are as the service counts them, in `timezone`.

    `rows` has the number of rows by table that were written or removed, `mended` that of days that
    were over, and counted, at the last load and differed. `missing` names slashtags and tags that could not
    be counted: the next load tries again.
    """

    since: date
    through: date
    timezone: str
    links: int
    rows: dict[str, int]
    mended: int
    missing: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
        return not self.missing


class Difference(Struct, frozen=True):
    """Clicks of a slashtag or tag that are not held as counted: on a day, or in a month by label."""

    table: str
    name: str
    date: date
    held: int
    counted: int
    dimension: str | None = None
    label: str | None = None


class Audit(Struct, frozen=True, kw_only=True):
    """Result of an audit of the days from `since` to `through`, the last one that was over at the last load.

    `missing` names slashtags and tags that could not be counted, `changed` those of links that are new,
    renamed or gone since: they are not compared, and the next load brings them.
    """

    since: date
    through: date
    timezone: str
    links: int
    differences: tuple[Difference, ...] = ()
    missing: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    @property
    def is_proved(self) -> bool:
        """Whether all that was compared is as the service counts it."""
        return not (self.differences or self.missing)


class _Last(NamedTuple):
    """What the last load said of itself: a row of `loads`."""

    loaded_at: datetime
    account: str
    timezone: str
    since: date
    through: date
    by_tag: bool
    dimensions: str
    complete: bool
    missing_links: int
    missing: str | None
    requests: int
    seconds: float
    version: str
    format: int

    @classmethod
    async def read(cls, warehouse: Warehouse) -> Self | None:
        """Return it, None if there is none; raises ConfigurationError for one of a newer version."""
        rows = await warehouse.rows("loads")
        found = cls(*max(rows, key=lambda row: row[0])) if rows else None
        if found is not None and found.format > FORMAT:
            problem = f"{warehouse.place} was loaded by a newer version of slashtag ({found.version})"
            raise ConfigurationError(f"{problem}: update slashtag, or use another path or --dataset")
        return found


async def load(
    session: AsyncSession,
    warehouse: Warehouse,
    since: str | date,
    *,
    timezone: str = "+00:00",
    by_tag: bool = False,
    dimensions: Iterable[str] = (),
    allow_shrink: bool = False,
    progress: TableProgress | None = None,
    on_error: OnError | None = None,
) -> Load:
    """Bring the tables of a warehouse up to date, from `since` to today.

    All that is held is compared with the service, and what differs is replaced: see docs/warehouse.md. A load
    that was interrupted goes on where it stopped, as what is there does not differ. `since`, `by_tag` and
    `dimensions` (some of device, browser, platform, country and referrer) add to those of the loads before.
    What fails is passed to `on_error`, and the rest goes on. Raises InvalidRequestError for wrong arguments;
    ConfigurationError if the warehouse holds another account or time zone; ShrunkListingError if more than a
    tenth of the links, and ten or more, are not listed any more, unless `allow_shrink`; ExportError if the
    warehouse fails; errors of requests that all others would have too. See docs/service.md, List short URLs;
    Statistics for a date or date range; Statistics for all time.
    """
    began, zone = monotonic(), parse_zone(timezone)
    (first, _), wanted = DateRange(since, since).bounds, {*dimensions}
    if unknown := wanted.difference(RangeStats.SUMS):
        raise InvalidRequestError(f"no dimension {min(unknown)!r}: there are {', '.join(RangeStats.SUMS)}")
    if first > (today := datetime.now(zone).date()):
        raise InvalidRequestError(f"{since} is after today, {today}: there are no clicks yet")
    with warehouse:
        last = await _Last.read(warehouse)
        if last is not None:
            if last.timezone != timezone:
                raise ConfigurationError(
                    f"{warehouse.place} holds days of {last.timezone}, not {timezone}: "
                    "use that timezone, or another path or --dataset"
                )
            by_tag, wanted = by_tag or last.by_tag, {*wanted, *filter(None, last.dimensions.split(","))}
        account, tags = await _read_account(session, warehouse, progress)
        owner = account.check_owner(session, last and last.account)
        account.check_whole(allow_shrink=allow_shrink)
        now = datetime.now(UTC)
        earlier, later = (each.astimezone(zone).date() for each in _clocks(session, now))
        latest = max(later, last.through) if last else later
        this = _Last(
            loaded_at=now.replace(tzinfo=None),
            account=owner,
            timezone=timezone,
            since=min(first, last.since) if last else first,
            through=earlier,
            by_tag=by_tag,
            dimensions=",".join(name for name in RangeStats.SUMS if name in wanted),
            complete=False,
            missing_links=0,
            missing=None,
            requests=0,
            seconds=0.0,
            version=__version__,
            format=FORMAT,
        )
        await _begin(warehouse, account, tags, this)
        unknown = account.changed | account.uncounted
        if last is None or this.since < last.since:
            unknown = {*account.names}
        written = _Written(warehouse, last.through if last else date.min, {*account.names} - unknown)
        missing = [str(row[ID]) for row in account.listed.values() if row[SLASHTAG] is None]
        comparisons = _comparisons(
            session,
            warehouse,
            this,
            account.names,
            tags,
            (this.since, latest),
            latest=latest,
            moved={tag[1] for tag in tags if tag[0] in account.retagged},
            unknown=unknown,
            clicked=account.clicked,
            gone=account.of_gone - {*account.names},
            progress=progress,
            on_error=on_error,
        )
        failed: set[str] = set()
        for table, comparison in comparisons:
            async for found in comparison.run():
                await written.add(table, found)
            await written.flush()
            missing += comparison.failed
            failed |= comparison.failed.keys() if table == "clicks_daily" else set()
        links = account.unlike({*account.names} - failed)
        this = this._replace(
            complete=not missing,
            missing_links=len(missing),
            missing=",".join(missing[:MOST_NAMES]) or None,
            requests=session.metrics.attempts,
            seconds=round(monotonic() - began, 1),
        )
        await warehouse.replace(
            Replacement("links", [row[ID] for row in links], None, links),
            Replacement("loads", [this.loaded_at], None, [this]),
        )
        return Load(
            since=this.since,
            through=this.through,
            timezone=timezone,
            links=len(account.listed),
            rows=written.rows,
            mended=written.mended,
            missing=tuple(missing),
        )


async def _begin(warehouse: Warehouse, account: Account, tags: list[Row], this: _Last) -> None:
    """Say whose the rows of clicks will be, before any is written, and remove those of other links.

    A load that is interrupted later has left no row under a slashtag that belongs to another link.
    """
    changes: list[Replacement] = []
    if foreign := account.changed & account.ever_held:
        changes += (
            Replacement(table, foreign, None, ()) for table in ("clicks_daily", "clicks_by_dimension")
        )
    if rows := [*account.unlike(), *account.gone_rows(this.loaded_at)]:
        changes.append(Replacement("links", [row[ID] for row in rows], None, rows))
    if tags != sorted(await warehouse.rows("tags")):
        changes.append(Replacement("tags", None, None, tags))
    if changes:
        changes.append(Replacement("loads", [this.loaded_at], None, [this]))
        await warehouse.replace(*changes)
        account.hold(rows)


class _Written:
    """Differences that are written, many at once; counts them."""

    def __init__(self, warehouse: Warehouse, over: date, known: set[str]) -> None:
        self._warehouse, self._over, self._known = warehouse, over, known
        self._kept: list[Found] = []
        self._waiting = 0
        self.rows = {table: 0 for table in TABLES if table.startswith("clicks")}
        self.mended = 0

    async def add(self, table: str, found: Found) -> None:
        """Write a difference, sooner or later."""
        if self._kept and (self._kept[0].span != found.span or self._waiting >= MOST_ROWS):
            await self.flush()
        self._table = table
        self._kept.append(found)
        self._waiting += len(found.counted) + len(found.labels) + 1

    async def flush(self) -> None:
        """Write what waits: of each name all rows of the month are replaced."""
        kept, self._kept, self._waiting = self._kept, [], 0
        if not kept:
            return
        (first, last), table = kept[0].span, self._table
        days = [(each.name, day, n) for each in kept for day, n in each.counted.items() if n]
        month = first if first == date.min else first.replace(day=1)
        labels = [(each.name, month, *label, n) for each in kept for label, n in each.labels.items()]
        changes = [
            Replacement(table, [each.name for each in kept if each.held], (first, last), days),
            Replacement(
                "clicks_by_dimension", [e.name for e in kept if e.held_labels], (month, last), labels
            ),
        ]
        await self._warehouse.replace(*changes)
        for each in kept:
            self.rows[table] += len(each.days)
            self.rows["clicks_by_dimension"] += len(
                (each.labels - each.held_labels) | (each.held_labels - each.labels)
            )
            if table == "clicks_daily" and each.name in self._known:
                self.mended += sum(day < self._over for day in each.days)


async def audit(
    session: AsyncSession,
    warehouse: Warehouse,
    *,
    progress: TableProgress | None = None,
    on_error: OnError | None = None,
) -> Audit:
    """Compare the tables of a warehouse with the service as a load does, without writing anything.

    The days that were over at the last load are compared; those of later clicks differ too: the next load
    brings them, and mends whatever else differs. Raises as `load`, and ExportError if no load was begun.
    """
    with warehouse:
        last = await _Last.read(warehouse)
        if last is None:
            raise ExportError(f"{warehouse.place} holds no load of clicks: run `slashtag sync` first")
        account, tags = await _read_account(session, warehouse, progress)
        account.check_owner(session, last.account)
        span = last.since, last.through - DAY
        names = [name for name in account.names if name not in account.changed]
        differences: list[Difference] = []
        missing: list[str] = []
        comparisons = _comparisons(
            session,
            warehouse,
            last,
            names,
            tags,
            span,
            latest=last.through,
            unknown=account.uncounted,
            clicked=account.clicked,
            gone=account.changed | (account.ever_held - {*names}),
            progress=progress,
            on_error=on_error,
        )
        for table, comparison in comparisons if span[0] <= span[1] else ():
            async for found in comparison.run():
                differences += _differences(table, found)
            missing += comparison.failed
        return Audit(
            since=span[0],
            through=span[1],
            timezone=last.timezone,
            links=len(account.listed),
            differences=tuple(differences),
            missing=tuple(missing),
            changed=tuple(sorted(account.changed)),
        )


async def _read_account(
    session: AsyncSession, warehouse: Warehouse, progress: TableProgress | None
) -> tuple[Account, list[Row]]:
    """Return the links as they are listed and held, and the rows of all tags, by id."""
    links = session.urls.list(progress=progress and partial(progress, "links"))
    account = Account(await links.to_list(), await warehouse.rows("links"))
    return account, sorted(map(_tag_row, await session.tags.list().to_list()))


def _clocks(session: AsyncSession, now: datetime) -> tuple[datetime, datetime]:
    """Return the present by this machine's clock and the service's, the earlier one first.

    Days up to the later one are compared, at most one more than this machine knows; days that are over by the
    earlier one count as such.
    """
    answered = session.metrics.oldest_answer
    served = now if answered is None else datetime.fromtimestamp(answered, UTC)
    return min(now, served), max(now, min(served, now + DAY))


def _comparisons(
    session: AsyncSession,
    warehouse: Warehouse,
    settings: _Last,
    links: list[str],
    tags: list[Row],
    span: Span,
    *,
    moved: Set[str] = frozenset(),
    unknown: Collection[str],
    clicked: Collection[str],
    gone: Collection[str],
    progress: TableProgress | None,
    **options: Any,
) -> Iterator[tuple[str, Comparison]]:
    """Yield the comparison of each table of clicks by day."""
    zone, of_tags = parse_zone(settings.timezone), [tag[1] for tag in tags if tag[1]]
    more: dict[str, Any] = {"unknown": unknown, "clicked": clicked, "gone": gone}
    more["dimensions"] = settings.dimensions.split(",") if settings.dimensions else []
    tables = {"clicks_daily": (links, more), "clicks_by_tag": (of_tags, {"moved": moved})}
    for table in ("clicks_daily", *["clicks_by_tag"] * settings.by_tag):
        (names, more), step = tables[table], progress and partial(progress, table)
        yield (
            table,
            Comparison(session, warehouse, table, names, span, zone, progress=step, **options, **more),
        )


def _differences(table: str, found: Found) -> Iterator[Difference]:
    for day in found.days:
        yield Difference(table, found.name, day, found.held[day], found.counted[day])
    for label in sorted(found.held_labels | found.labels):
        held, counted = found.held_labels[label], found.labels[label]
        if held != counted:
            month = found.span[0].replace(day=1)
            yield Difference("clicks_by_dimension", found.name, month, held, counted, *label)

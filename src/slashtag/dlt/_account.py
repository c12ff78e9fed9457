"""The session that the resources of a source share, and the listings that they need."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import chain
from math import inf
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import dlt
from anyio.from_thread import start_blocking_portal
from msgspec import Struct

from .. import AsyncSession, ConfigurationError, Failure, Metrics
from .._internal import remove_journal
from ..export import TAGS, URLS, Links, arrow_table, tag_row, url_row

T = TypeVar("T")
arrow: Any = import_module("pyarrow")
log = logging.getLogger("slashtag")
_MOST_APART = timedelta(days=1)


@dataclass
class Monitor:
    """Callbacks of a load, and the counters of its session.

    `progress` is called with (table, series done, total or None) by another thread. `on_error` is called with
    each Failure and the others continue, as in `session.stats.collect_each`; without it the first is raised.
    `metrics` is None until the session is opened.
    """

    progress: Callable[[str, int, int | None], object] | None = None
    on_error: Callable[[Failure], object] | None = None
    metrics: Metrics | None = None


class Series(Struct, frozen=True, omit_defaults=True):
    """What a load saw of a slashtag or tag: the ids and hits of what has this name, and its last clicks.

    `clicks` are by day, or by the first day of a month, without zeros. A tag has no hits.
    """

    ids: tuple[int, ...]
    hits: int | None = None
    clicks: dict[date, int] = {}


class Listed(NamedTuple):
    """A listing: its Arrow table, its slashtags or tags, those with the most hits first, and the time.

    Requesting clicks in this order takes the fewest requests.
    """

    table: Any
    series: Mapping[str, Series]
    now: datetime


class Account:
    """One session for all resources of a load, with a journal of its requests, and the listings.

    The session runs on an event loop in a thread of its own, because dlt's loop closes generators that are
    still running.
    """

    def __init__(self, monitor: Monitor, **session_options: Any) -> None:
        self.monitor = monitor
        self._options = session_options
        self._stack = ExitStack()
        self._users = 0
        self._links: Listed | None = None
        self._tags: Listed | None = None
        self._now: datetime | None = None

    def iterate(self, make: Callable[[AsyncSession], AsyncGenerator[T, None]]) -> Iterator[T]:
        """Yield what an async generator over the session yields; the first opens it, the last closes it."""
        if not self._users:
            self._open()
        self._users += 1
        items = make(self._session)
        try:
            while True:
                item = self._portal.start_task_soon(anext, items, None)
                try:
                    found = item.result()
                except BaseException:
                    item.cancel()
                    raise
                if found is None:
                    break
                yield found
            # Committed with the rows or not at all, so that an interrupted load finds its journal again.
            dlt.current.source_state()["loads"] = number_of_loads(dlt.current.pipeline().state) + 1
        finally:
            with suppress(RuntimeError):  # it is being cancelled
                self._portal.call(items.aclose)
            self._users -= 1
            if not self._users:
                self._stack.close()

    def _open(self) -> None:
        with ExitStack() as stack:
            uvloop = {"use_uvloop": find_spec("uvloop") is not None}
            self._portal = stack.enter_context(start_blocking_portal(backend_options=uvloop))
            session = AsyncSession(**self._options, journal=journal_of(dlt.current.pipeline()))
            self.monitor.metrics = session.metrics
            self._session = stack.enter_context(self._portal.wrap_async_context_manager(session))
            self._stack = stack.pop_all()

    async def links(self, session: AsyncSession) -> Listed:
        """Return all links, listed once, and their slashtags."""
        if self._links is None:
            progress = self.monitor.progress and partial(self.monitor.progress, "links")
            links = await Links.read(session, progress=progress)
            if links.refused:
                text = "%d links are left out of the clicks: statistics cannot be requested for %r"
                log.warning(text, len(links.refused), links.refused[0].slashtag)
            rows = map(url_row, chain(*links.by_slashtag.values(), links.refused))
            series = {
                key: Series(tuple(sorted(link.id for link in links.by_slashtag[key])), hits)
                for key, hits in links.hits.most_common()
            }
            self._links = Listed(arrow_table(URLS, rows), series, self._present(session))
        return self._links

    async def tags(self, session: AsyncSession) -> Listed:
        """Return all tags, listed once; their listing has no hits."""
        if self._tags is None:
            tags = await session.tags.list().to_list()
            table = arrow_table(TAGS, map(tag_row, tags))
            series = {tag.name: Series((tag.id,)) for tag in tags if tag.name}
            self._tags = Listed(table, series, self._present(session))
        return self._tags

    def _present(self, session: AsyncSession) -> datetime:
        """Return the time of the first listing, by the earlier of this machine's clock and the service's.

        By a clock that is ahead, days would be over that are not, and their clicks lost. Raises
        ConfigurationError if the clocks are more than a day apart. Without a Date in the answers this
        machine's counts.
        """
        if self._now is None:
            self._now = datetime.now(UTC)
            if (answered := session.metrics.oldest_answer) < inf:
                served = datetime.fromtimestamp(answered, UTC)
                if abs(self._now - served) > _MOST_APART:
                    raise ConfigurationError(
                        f"this machine's clock says {self._now:%Y-%m-%d %H:%M} UTC, the service's "
                        f"{served:%Y-%m-%d %H:%M}: set the one that is wrong, or let no cache answer"
                    )
                self._now = min(self._now, served)
        return self._now


def number_of_loads(state: Mapping[str, Any]) -> int:
    """Return how many loads a pipeline's state has seen; not those of an extraction under way."""
    return max((source.get("loads", 0) for source in state.get("sources", {}).values()), default=0)


def journal_of(pipeline: dlt.Pipeline) -> Path:
    """Return the journal of a pipeline's next load, and remove those of loads that were committed.

    Its name has the number of loads that were committed, which dlt's state holds: the load after an
    interrupted one finds the same journal and requests only what it lacks.
    """
    folder = Path(pipeline.pipelines_dir)
    wanted = folder / f"{pipeline.pipeline_name}.{number_of_loads(pipeline.state)}.journal"
    for journal in folder.glob(f"{pipeline.pipeline_name}.*.journal"):
        if journal != wanted:
            remove_journal(journal)
    return wanted

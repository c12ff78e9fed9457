"""The session that the resources of a source share, and the listings that they need."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self, TypeVar

import dlt
from anyio.from_thread import start_blocking_portal

from .. import AsyncSession, Failure, InvalidRequestError, Metrics, ShortUrl, Tag
from .._internal import check_slashtag, remove_journal

T = TypeVar("T")
#: Returns the series to load, with their clicks of all time where the listing has them.
Hits = Callable[[AsyncSession], Awaitable[dict[str, int | None]]]

log = logging.getLogger("slashtag")


class Monitor:
    """Callbacks and counts of a load.

    `progress` is called with (table, series done, total or None) by another thread. `on_error` is called with
    each Failure and the others continue, as in `session.stats.collect_each`; without it the first is raised.
    """

    def __init__(
        self,
        progress: Callable[[str, int, int | None], object] | None = None,
        on_error: Callable[[Failure], object] | None = None,
    ) -> None:
        self._progress = progress
        self.on_error = on_error
        #: Counters of the session that was opened last.
        self.metrics: Metrics | None = None
        #: Requests sent, 429 answers, and requests answered from the journal of an interrupted load.
        self.requests = self.throttled = self.replayed = 0
        #: Answers that contradict themselves.
        self.inconsistent = 0

    def progress(self, table: str) -> Callable[[int, int | None], object] | None:
        """Return the callback for one table."""
        report = self._progress
        return None if report is None else lambda done, total: report(table, done, total)

    def count(self, session: AsyncSession) -> None:
        """Add the counts of a session that has ended."""
        metrics = session.metrics
        self.requests += metrics.attempts
        self.throttled += metrics.throttled
        self.replayed += metrics.replayed
        self.inconsistent += metrics.inconsistent


class Account:
    """One session for all resources of a load, with a journal in the pipeline's folder.

    The session runs on an event loop in a thread of its own, because dlt's loop closes generators that are
    still running. The journal's name has the number of loads that were committed, which dlt's state holds:
    the load after an interrupted one finds the same journal and requests only what it lacks.
    """

    def __init__(self, monitor: Monitor, **session_options: Any) -> None:
        self.monitor = monitor
        self._options = session_options
        self._stack = ExitStack()
        self._users = 0
        self._links: list[ShortUrl] | None = None
        self._tags: list[Tag] | None = None

    def __enter__(self) -> Self:
        """Open the session for its first user."""
        if not self._users:
            with ExitStack() as stack:
                uvloop = {"use_uvloop": find_spec("uvloop") is not None}
                self._portal = stack.enter_context(start_blocking_portal(backend_options=uvloop))
                session = AsyncSession(**self._options, journal=self._journal())
                self.monitor.metrics = session.metrics
                self._session = stack.enter_context(self._portal.wrap_async_context_manager(session))
                self._stack = stack.pop_all()
        self._users += 1
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Close the session after its last user."""
        if error is None:
            # Committed with the rows or not at all, so that an interrupted load finds its journal again.
            dlt.current.source_state()["loads"] = number_of_loads(dlt.current.pipeline().state) + 1
        self._users -= 1
        if not self._users:
            self._stack.close()
            self.monitor.count(self._session)

    def _journal(self) -> Path:
        """Return the journal of this load, and remove those of loads that were committed."""
        pipeline = dlt.current.pipeline()
        folder = Path(pipeline.working_dir)
        wanted = folder / f"slashtag-{number_of_loads(pipeline.state)}.journal"
        for journal in folder.glob("slashtag-*.journal"):
            if journal != wanted:
                remove_journal(journal)
        return wanted

    def iterate(self, make: Callable[[AsyncSession], AsyncGenerator[T, None]]) -> Iterator[T]:
        """Yield what an async generator over the session yields."""
        items = make(self._session)
        try:
            while True:
                item = self._portal.start_task_soon(_next, items)
                try:
                    found = item.result()
                except BaseException:
                    item.cancel()
                    raise
                if found is None:
                    return
                yield found
        finally:
            with suppress(RuntimeError):  # it is being cancelled
                self._portal.call(items.aclose)

    async def links(self, session: AsyncSession) -> list[ShortUrl]:
        """Return all links, listed once."""
        if self._links is None:
            self._links = await session.urls.list(progress=self.monitor.progress("links")).to_list()
        return self._links

    async def tags(self, session: AsyncSession) -> list[Tag]:
        """Return all tags, listed once."""
        if self._tags is None:
            self._tags = await session.tags.list().to_list()
        return self._tags

    async def hits(self, session: AsyncSession) -> dict[str, int | None]:
        """Return the hits of each slashtag, the most first: this order takes the fewest requests."""
        found: Counter[str] = Counter()
        refused: list[InvalidRequestError] = []
        for link in await self.links(session):
            try:
                # Statistics count a slashtag for all links that have it, on different domains.
                found[check_slashtag(link)] += link.hits or 0
            except InvalidRequestError as error:
                refused.append(error)
        if refused:
            log.warning("%d links are left out of the clicks, the first: %s", len(refused), refused[0])
        return dict(found.most_common())

    async def tag_names(self, session: AsyncSession) -> dict[str, int | None]:
        """Return the names of all tags, without hits, as the listing has none."""
        return {tag.name: None for tag in await self.tags(session) if tag.name}


def number_of_loads(state: Mapping[str, Any]) -> int:
    """Return how many loads a pipeline's state has seen; not those of an extraction under way."""
    return max((source.get("loads", 0) for source in state.get("sources", {}).values()), default=0)


async def _next(items: AsyncGenerator[T, None]) -> T | None:
    return await anext(items, None)

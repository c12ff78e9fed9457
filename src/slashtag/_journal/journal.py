"""Journal of a job: complete responses in a file; a second run requests only what may have changed."""

import asyncio
import hashlib
import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from .._core.call import Call
from .._core.made_batches import LinkIds, MadeBatch, MadeBatches
from .._core.response import SETTLING_SECONDS
from .._errors import JournalError
from .._files import in_thread
from .._records import Page, ShortUrl
from .file import JournalFile, Stored, UnfitJournalError

COMMIT_SECONDS = 0.2

log = logging.getLogger("slashtag")
_batch_decoder = msgspec.json.Decoder(MadeBatch)
#: Kinds of batches, and first bytes of requests.
_BY_ACTIVITY, _OTHERS = b"by activity", b"others"
_PAGES, _STATISTICS = b"\0", b"\1"


class Journal:
    """Journal of one job, bound to one base URL and one account.

    A response is replayed if the file had it before this session started, if it is about the same links, was
    final when it was fetched (see `is_final`) and is at most `max_age` seconds old; `answered_at` says by
    which clock. The links of a slashtag are those of the call, and all others that this session has listed:
    the service counts them too. A thread commits responses in groups, at most 0.2 seconds after their
    arrival: kill -9 loses only those not yet committed.

    Raises ConfigurationError if the file is not a journal, in use, or belongs to another job; JournalError if
    it is damaged or cannot be written, for example on a full disk; committed responses remain.
    """

    def __init__(self, path: str | os.PathLike[str], base_url: str, apikey: str, max_age: float) -> None:
        self.path = Path(path)
        self._file = JournalFile(self.path, base_url, apikey)
        self._max_age = max_age
        #: Whether a file that is no use to this job is renamed, instead of an error.
        self.sets_aside = False
        self._began = 0.0
        #: Seconds that the service's clock is ahead of this one, None while unknown.
        self._ahead: float | None = None
        self._has_clock = True
        #: Batches of this job: those of links sorted by activity, and the others.
        self._made: dict[bytes, MadeBatches] = {}
        self._may_replay_pages = True
        #: Pages that were replayed and whose links statistics may be asked about, and what they list.
        self._unconfirmed: list[tuple[Call[Any], int]] = []
        self._confirming = asyncio.Lock()
        #: Ids of the links that this session has listed, by slashtag.
        self._listed_ids: dict[str, LinkIds] = {}
        #: Opens the file and commits to it.
        self._thread = ThreadPoolExecutor(1, "slashtag-journal")
        self._lock = threading.Lock()
        self._pending: list[tuple[bytes, float | None, bytes]] = []
        self._closed = threading.Event()
        self._failure: str | None = None
        self._reported = False

    async def start(self) -> None:
        """Open or create the file in a thread, because checking a large file takes time; safe to repeat."""
        if not self._closed.is_set():
            await asyncio.wrap_future(self._thread.submit(self.open))

    def open(self) -> None:
        """Open or create the file; safe to repeat."""
        if self._file.main is not None or self._closed.is_set():
            return
        self._began = time.time()
        try:
            self._file.open()
            if self.sets_aside and self._is_expired():
                self._file.close()
                self._renew(
                    f"the answers of the journal {self.path} are older than {self._max_age / 3600:g} h"
                )
        except UnfitJournalError as error:
            if not self.sets_aside:
                raise
            self._renew(str(error))
        for kind in (_BY_ACTIVITY, _OTHERS):
            batches = (_batch_decoder.decode(links) for of, links in self._file.batches if of == kind)
            self._made[kind] = MadeBatches(batches, partial(self._keep_batch, kind))
        if self._file.batches or self._file.has_responses_from(_STATISTICS):
            self.stop_replaying_pages()
        self._file.batches.clear()

    def _is_expired(self) -> bool:
        """Return whether no answer of the file is valid any more."""
        fetched = self._file.last_fetched
        return bool(self._max_age) and fetched is not None and not self._is_recent(fetched)

    def _renew(self, why: str) -> None:
        self._file.set_aside(why)
        self._file.open()

    async def replay(self, call: Call[Any]) -> bytes | None:
        """Return the body to replay for a call, or None if the call must be sent."""
        if self._file.main is None:
            # The session is used without `async with`.
            await self.start()
        # Checked before sending: an error of the journal must not replace the result of a write.
        self.check()
        found = self.find(call)
        return None if found is None else found.body

    def find(self, call: Call[Any]) -> Stored | None:
        """Return the response to replay for a call, if there is one."""
        file = self._file
        if file.snapshot is None or self._closed.is_set() or not self._max_age:
            return None
        if call.again or (_is_page(call) and not self._may_replay_pages):
            return None
        try:
            row = file.find(_request(call, self._listed_ids))
        except JournalError as error:
            if not self.sets_aside:
                raise
            log.warning("%s: everything is requested", error)
            file.snapshot = None
            return None
        if row is None or not row.body or not self._is_recent(row.fetched) or not is_final(call, row.fetched):
            return None
        return row

    def stop_replaying_pages(self) -> None:
        """Have pages requested from now on: statistics are asked about what they list.

        An older page would say which slashtags the links had then.
        """
        self._may_replay_pages = False

    def replayed(self, call: Call[Any], data: object) -> None:
        """Note what was replayed, so that `confirm_pages` can compare it."""
        self._note_links(data)
        if isinstance(data, Page):
            self._unconfirmed.append((call, _listed(data)))  # pyright: ignore[reportUnknownArgumentType]

    def _note_links(self, data: object) -> None:
        """Note which links a page lists."""
        if not isinstance(data, Page):
            return
        page: Page[Any] = data  # pyright: ignore[reportUnknownVariableType]
        for link in page.items:
            if isinstance(link, ShortUrl) and link.slashtag:
                self._listed_ids[link.slashtag] = _together(
                    self._listed_ids.get(link.slashtag, ()), (link.id,)
                )

    async def confirm_pages(self, send: Callable[[Call[Any]], Awaitable[Page[Any]]]) -> None:
        """Request the pages anew that were replayed, before statistics are asked about their links.

        Raises JournalError if links or tags have changed since; the next run lists them anew.
        """
        if not self._unconfirmed:
            return
        async with self._confirming:
            while self._unconfirmed:
                call, before = self._unconfirmed[0]
                if _listed(await send(replace(call, again=True))) != before:
                    self.forget(call for call, _ in self._unconfirmed)
                    raise JournalError(
                        f"links or tags have changed since the journal {self.path} read their list: run the "
                        "job again, which lists them anew"
                    )
                del self._unconfirmed[0]

    def _now(self) -> float:
        """Return the time of opening, by the earlier of this machine's clock and the service's.

        One that is behind the newest answer was set back, and does not count.
        """
        readings = [self._began, self._began + (self._ahead or 0.0)]
        newest = self._file.last_fetched or 0.0
        return min((each for each in readings if each >= newest), default=max(readings))

    def _is_recent(self, fetched: float) -> bool:
        return fetched >= self._now() - self._max_age

    def made_batches(self, *, by_activity: bool) -> MadeBatches | None:
        """Return the batches of this job, of links that are sorted by activity, or the others."""
        if self._file.main is None or self._closed.is_set():
            return None
        return self._made[_BY_ACTIVITY if by_activity else _OTHERS]

    def _keep_batch(self, kind: bytes, batch: MadeBatch) -> None:
        self._queue(kind, None, msgspec.json.encode(batch))

    def keep(
        self,
        call: Call[Any],
        data: object,
        body: bytes,
        made: float | None = None,
        served: float | None = None,
    ) -> None:
        """Queue a complete response for writing.

        `made` is when the service made it (see `answered_at`), `served` is that by the service's clock alone.
        Without them it cannot be known whether a period had ended.
        """
        self._note_links(data)
        now = time.time()
        if made is None:
            if call.period_end is not None:
                if self._has_clock:
                    log.warning("answers bear no valid Date: the journal cannot keep statistics")
                self._has_clock = False
                return
            made = now
        if served is not None:
            # Answers of caches are older.
            self._ahead = served - now if self._ahead is None else max(self._ahead, served - now)
        if not self._closed.is_set() and is_final(call, made, data):
            self.check()
            self._queue(_request(call, self._listed_ids), made, body)

    def forget(self, calls: Iterable[Call[Any]]) -> None:
        """Queue that later runs send these calls again, unless answers are kept from now on."""
        for call in calls:
            self._queue(_request(call, self._listed_ids), time.time(), b"")

    def _queue(self, key: bytes, fetched: float | None, body: bytes) -> None:
        with self._lock:
            self._pending.append((key, fetched, body))
            if len(self._pending) == 1 and not self._closed.is_set():
                self._thread.submit(self._commit)

    def check(self) -> None:
        """Raise JournalError if the file could not be written."""
        if self._failure is not None:
            self._reported = True
            raise JournalError(
                f"the journal {self.path} cannot be written ({self._failure}); stored responses are intact. "
                "Fix this and run the job again"
            )

    def _commit(self) -> None:
        """Commit what was queued within an interval; runs in the thread."""
        self._closed.wait(COMMIT_SECONDS)
        with self._lock:
            rows, self._pending = self._pending, []
        if self._failure is None:
            self._failure = self._file.append(rows)

    async def aclose(self) -> None:
        """Commit queued responses and close the file; raises JournalError, once, if that fails."""
        self._closed.set()
        await in_thread(self._close)
        if not self._reported:
            self.check()

    def _close(self) -> None:
        self._thread.shutdown()
        self._file.close()


def is_final(call: Call[Any], fetched: float, data: object = None) -> bool:
    """Return whether an answer fetched at this time (epoch seconds) may be replayed in a later run.

    Statistics: if their period had ended; those of a tag only if its links are known, as other links may
    belong to it later. A page, given as `data` when it is kept: if it was full, since the last page grows; if
    the listing was read oldest first, since in another order new records shift every page; and if it is the
    page that was requested. If the service has changed its page size since, the listing notices and requests
    the page again.
    """
    if isinstance(data, Page):
        page: Page[Any] = data  # pyright: ignore[reportUnknownVariableType]
        stays = ("orderby", "date") in call.params and ("page", str(page.page)) in call.params
        if not (stays and 0 < page.page_size <= len(page.items)):
            return False
    if call.tag is not None and not call.link_ids:
        return False
    has_ended = call.period_end is None or fetched > call.period_end + SETTLING_SECONDS
    return call.method == "GET" and call.replayable and has_ended


def _is_page(call: Call[Any]) -> bool:
    return "page" in dict(call.params)


def _listed(page: Page[Any]) -> int:
    """Return a hash of the records of a page, as far as statistics depend on them."""
    names = ("id", "slashtag", "tag_id", "name")
    return hash(tuple(tuple(getattr(item, name, None) for name in names) for item in page.items))


def _request(call: Call[Any], listed: Mapping[str, LinkIds]) -> bytes:
    """Return a short hash that identifies a request, whose slashtags may take thousands of bytes.

    Slashtags and tags are told by the ids of their links too: those of the call, and of a slashtag those that
    were `listed` as well. Requests of statistics sort after those of pages.
    """
    link_ids = call.link_ids
    if listed and (keys := call.keys):
        given = link_ids or ((),) * len(keys)
        link_ids = tuple(_together(ids, listed.get(key, ())) for key, ids in zip(keys, given, strict=True))
    text = msgspec.json.encode((call.path, call.params, link_ids))
    return (_PAGES if _is_page(call) else _STATISTICS) + hashlib.blake2b(text, digest_size=16).digest()


def _together(ids: LinkIds, others: LinkIds) -> LinkIds:
    return ids if ids == others else tuple(sorted({*ids, *others}))

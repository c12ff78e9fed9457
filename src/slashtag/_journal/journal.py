"""Journal of a job: complete responses in a file; a second run requests only what may have changed."""

import asyncio
import hashlib
import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import msgspec

from .._core.batches import KeptOrder, KeyAndId
from .._core.call import SETTLING_SECONDS, Call
from .._errors import JournalError
from .._files import in_thread
from .._records import Page
from .file import JournalFile, Stored

COMMIT_SECONDS = 0.2

log = logging.getLogger("slashtag")
_links_decoder = msgspec.json.Decoder(list[KeyAndId])


class Journal:
    """Journal of one job, bound to one base URL and one account.

    A response is replayed if the file had it before this session started, if it was final when it was
    fetched (see `is_final`) and is at most `max_age` seconds old, both by the service's clock. It is not if a
    slashtag of it belongs to another link now. A thread commits responses in groups, at most 0.2 seconds
    after their arrival: kill -9 loses only those not yet committed.

    Raises ConfigurationError if the file is not a journal, in use, or belongs to another job; JournalError if
    it is damaged or cannot be written, for example on a full disk; committed responses remain.
    """

    def __init__(self, path: str | os.PathLike[str], base_url: str, apikey: str, max_age: float) -> None:
        self.path = Path(path)
        self._file = JournalFile(self.path, base_url, apikey)
        self._max_age = max_age
        self._began = 0.0
        #: Seconds that the service's clock is ahead of this one, None while unknown.
        self._ahead: float | None = None
        self._has_clock = True
        #: Batches of earlier runs, by question, and how often each question was asked in this one.
        self._batches: dict[bytes, list[list[KeyAndId]]] = {}
        self._asked: Counter[str] = Counter()
        #: By slashtag: the id of its link, and the last response from before it belonged to that link.
        self._ids: dict[str, int] = {}
        self._changed: dict[str, float] = {}
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
        self._file.open()
        for question, last, links in self._file.batches:
            batch = _links_decoder.decode(links)
            self._note(batch, last)
            self._batches.setdefault(question, []).append(batch)
        self._file.batches.clear()

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
        if file.snapshot is None or self._closed.is_set() or call.anew or not self._max_age:
            return None
        # The statistics in the journal are of the slashtags that the links had then: links are listed anew.
        if self._batches and "page" in dict(call.params):
            return None
        row = file.find(_request(call))
        if row is None or not row.body or not self._is_recent(row.fetched) or not is_final(call, row.fetched):
            return None
        if self._changed and any(self._changed.get(key, -1) >= row.id for key in call.keys):
            return None
        return row

    def _is_recent(self, fetched: float) -> bool:
        return fetched >= self._began + (self._ahead or 0.0) - self._max_age

    def kept_order(self, path: str) -> KeptOrder | None:
        """Return the order of the slashtags of a question, the first, second, ... to this path."""
        file = self._file
        if file.main is None or self._closed.is_set():
            return None
        question = f"{path} {self._asked[path]}".encode()
        self._asked[path] += 1
        # An order without an answer to replay is out of date, as far as the service's time is known.
        last = file.last_fetched
        is_used = last is not None and self._max_age and (self._ahead is None or self._is_recent(last))
        before = self._batches.get(question, ()) if is_used else ()
        return KeptOrder(before, partial(self._keep_batch, question))

    def _keep_batch(self, question: bytes, links: Sequence[KeyAndId]) -> None:
        self._note(links, inf)
        self._queue(question, None, msgspec.json.encode(links))

    def _note(self, links: Sequence[KeyAndId], last: float) -> None:
        """Note which link each slashtag belongs to, from the response after `last` on."""
        for slashtag, link in links:
            if link is not None and self._ids.setdefault(slashtag, link) != link:
                self._ids[slashtag] = link
                self._changed[slashtag] = last

    def keep(self, call: Call[Any], data: object, body: bytes, made: float | None = None) -> None:
        """Queue a complete response for writing.

        `made` is when the service made it, by its own clock. Without that it cannot be known whether a period
        had ended.
        """
        now = time.time()
        if made is not None:
            # Answers of caches are older.
            self._ahead = made - now if self._ahead is None else max(self._ahead, made - now)
        elif call.period_end is not None:
            if self._has_clock:
                log.warning("answers bear no valid Date: the journal cannot keep statistics")
            self._has_clock = False
            return
        fetched = now if made is None else made
        if not self._closed.is_set() and is_final(call, fetched, data):
            self.check()
            self._queue(_request(call), fetched, body)

    def forget(self, calls: Iterable[Call[Any]]) -> None:
        """Queue that later runs send these calls again, unless answers are kept from now on."""
        for call in calls:
            self._queue(_request(call), time.time(), b"")

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

    Statistics: if their period had ended. A page, given as `data` when it is kept: if it was full, since the
    last page grows; if the listing was read oldest first, since in another order new records shift every
    page; and if it is the page that was requested. If the service has changed its page size since, the
    listing notices and requests the page again.
    """
    if isinstance(data, Page):
        page: Page[Any] = data  # pyright: ignore[reportUnknownVariableType]
        stays = ("orderby", "date") in call.params and ("page", str(page.page)) in call.params
        if not (stays and 0 < page.page_size <= len(page.items)):
            return False
    has_ended = call.period_end is None or fetched > call.period_end + SETTLING_SECONDS
    return call.method == "GET" and call.replayable and has_ended


def _request(call: Call[Any]) -> bytes:
    """Return a short hash that identifies a request, whose slashtags may take thousands of bytes."""
    text = msgspec.json.encode((call.path, call.freshness != "any", call.params))
    return hashlib.blake2b(text, digest_size=16).digest()

"""Journal of a job: a file of complete responses, so that a second run requests only what is missing."""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from .._core.call import SETTLING_SECONDS, Call
from .._errors import ConfigurationError, JournalError
from .._models import Page
from .._threads import in_thread
from .file import JournalFile

COMMIT_SECONDS = 0.2
CROWDED_BYTES = 64 * 2**20


class Journal:
    """Journal of one job, bound to one base URL and one account.

    A response is replayed if the file had it before this session started, if it was final when it was
    fetched (see `is_final`) and is at most `max_age` seconds old. A thread commits responses in
    groups, at most 0.2 seconds after their arrival: kill -9 loses only those not yet committed.

    Raises ConfigurationError if the file is not a journal, in use, or belongs to another job; JournalError if
    it is damaged or cannot be written, for example on a full disk; committed responses remain.
    """

    def __init__(self, path: str | os.PathLike[str], base_url: str, apikey: str, max_age: float) -> None:
        if not max_age >= 0:
            raise ConfigurationError(
                f"journal_max_age is {max_age}; it must be a number of seconds, 0 or more"
            )
        self.path = Path(path)
        self._file = JournalFile(self.path, base_url, apikey)
        self._max_age = max_age
        self._began = 0.0
        #: Opens the file and commits to it.
        self._thread = ThreadPoolExecutor(1, "slashtag-journal")
        self._lock = threading.Lock()
        self._pending: list[tuple[bytes, float, bytes]] = []
        self._pending_bytes = 0
        self._closed = threading.Event()
        self._failure: str | None = None
        self._reported = False

    async def start(self) -> None:
        """Open or create the file in a thread, because checking a large file takes time; safe to repeat."""
        if self._file.main is None and not self._closed.is_set():
            await asyncio.wrap_future(self._thread.submit(self.open))

    def open(self) -> None:
        """Open or create the file; safe to repeat."""
        if self._file.main is not None or self._closed.is_set():
            return
        self._file.open()
        self._began = time.time()

    async def replay(self, call: Call[Any]) -> bytes | None:
        """Return the body to replay for a call, or None if the call must be sent."""
        if self._file.main is None:
            # The session is used without `async with`.
            await self.start()
        # Checked before sending: an error of the journal must not replace the result of a write.
        self.check()
        found = self.find(call)
        return None if found is None else found[1]

    def fetched_at(self, call: Call[Any]) -> float | None:
        """Return the wall clock's time at which the answer to replay was fetched, or None."""
        found = self.find(call)
        return None if found is None else found[0]

    def find(self, call: Call[Any]) -> tuple[float, bytes] | None:
        """Return the answer to replay for a call, and when it was fetched."""
        file = self._file
        if file.snapshot is None or self._closed.is_set() or call.anew:
            return None
        request = _request(call)
        row = file.find(request)
        if row is None:
            return None
        fetched, expected, body = row
        # A time in the future means that a clock was wrong.
        if not self._began - self._max_age <= fetched <= self._began or not is_final(call, fetched):
            return None
        if expected != file.checksum(request, fetched, body):
            raise file.damaged("a response was altered, or comes from another journal")
        return fetched, body

    def keep(self, call: Call[Any], data: object, body: bytes) -> bool:
        """Queue a complete response for writing; return True if the caller should `wait`."""
        fetched = time.time()
        if self._closed.is_set() or not is_final(call, fetched, data):
            return False
        self.check()
        with self._lock:
            self._pending.append((_request(call), fetched, body))
            self._pending_bytes += len(body)
            if len(self._pending) == 1:
                self._thread.submit(self._commit)
            return self._pending_bytes >= CROWDED_BYTES

    async def wait(self) -> None:
        """Wait until fewer bytes are queued."""
        while self._pending_bytes >= CROWDED_BYTES and self._failure is None:  # noqa: ASYNC110
            # Rare enough for a poll.
            await asyncio.sleep(COMMIT_SECONDS / 4)
        self.check()

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
            rows, self._pending, size = self._pending, [], self._pending_bytes
        if self._failure is None:
            self._failure = self._file.append(rows)
        with self._lock:
            self._pending_bytes -= size

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
    """Return whether an answer fetched at this time (wall clock, seconds) may be replayed in a later run.

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
    has_ended = call.settled_at is None or fetched > call.settled_at + SETTLING_SECONDS
    return call.method == "GET" and call.replayable and has_ended


def _request(call: Call[Any]) -> bytes:
    """Return a short hash that identifies a request, whose slashtags may take thousands of bytes."""
    # Lengths make the text unambiguous.
    text = "".join([call.path, *(f"?{name}:{len(value)}:{value}" for name, value in call.params)])
    return hashlib.blake2b(text.encode(), digest_size=16).digest()

"""Journal of a job: its answers in a file; a run that is repeated requests only what may have changed.

An answer of statistics is replayed if all of this holds, and requested otherwise:

    the file had it when this session opened it, for the same path and parameters
    it is about the same links: those of the call, and others with these slashtags that were listed
    its period had ended when it was made, by the earlier of this machine's clock and the service's
    it was at most `max_age` seconds old when this session opened the file
    the call is no second request (`Call.again`)

Pages are always requested: a listing costs a request for 500 links.
"""

import hashlib
import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import msgspec

from .._core.batches import LinkIds
from .._core.call import Call
from .._core.limits import SETTLING_SECONDS
from .._fanout import in_thread
from .._files import check_local_path
from .._records import Page, ShortUrl
from .file import JournalFile

COMMIT_SECONDS = 0.2


class Journal:
    """Journal of one job, bound to one base URL and one account; see the module.

    A thread commits answers in groups, at most 0.2 seconds after their arrival: kill -9 loses only those not
    yet committed. If the file cannot be written, for example on a full disk, that is told once and the job
    goes on without it.

    Raises what `check_local_path` and `JournalFile` raise.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        base_url: str,
        apikey: str,
        max_age: float,
        notify: Callable[[str], object],
    ) -> None:
        check_local_path(path)
        self._notify = notify
        self._file = JournalFile(Path(path), base_url, apikey)
        self._oldest = time.time() - max_age
        #: Ids of the links that this session has listed, by slashtag.
        self._listed: dict[str, LinkIds] = {}
        #: Commits to the file.
        self._thread = ThreadPoolExecutor(1, "slashtag-journal")
        self._queue: SimpleQueue[tuple[str, Any]] = SimpleQueue()
        self._closed = threading.Event()
        self._is_writable = True

    def replay(self, call: Call[Any]) -> bytes | None:
        """Return the body to replay for a call, or None if the call must be sent.

        Raises JournalError if the file is damaged.
        """
        if not self._file.last or call.again or not _is_kept(call):
            return None
        made, body = self._file.find(request_name(call, self._listed)) or (0.0, None)
        return body if made >= self._oldest and had_ended(call, made) else None

    def order(self, names: Collection[int | str]) -> list[int | str]:
        """Return ids of links, or slashtags, in the order in which the job has asked about them first.

        So a run that is repeated makes the same batches: a link that was added since comes last, and one that
        was removed moves those after it. Each is given once.
        """
        places = self._file.places
        if added := [name for name in names if name not in places]:
            for name in added:
                places[name] = len(places)
            # What is no name is refused later.
            self._put("links", json.dumps([name for name in added if isinstance(name, int | str)]))
        return sorted(names, key=places.__getitem__)

    def keep(self, call: Call[Any], data: object, body: bytes, made: float | None) -> None:
        """Queue an answer for writing that was `made` then (see `answered_at`), if it may be replayed."""
        if isinstance(data, Page):
            for link in data.items:  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
                if isinstance(link, ShortUrl) and link.slashtag:
                    known = self._listed.get(link.slashtag, ())
                    self._listed[link.slashtag] = tuple(sorted({*known, link.id}))
        # Without a Date it is not known whether a period had ended.
        if _is_kept(call) and made is not None and had_ended(call, made):
            self._put("answer", request_name(call, self._listed), made, body)

    def _put(self, table: str, *row: object) -> None:
        if not self._closed.is_set():
            self._queue.put((table, row))
            # The first after a commit; what comes until the next is in that.
            if self._queue.qsize() == 1:
                self._thread.submit(self._commit)

    def _commit(self) -> None:
        """Commit what was queued within an interval; runs in the thread."""
        self._closed.wait(COMMIT_SECONDS)
        rows: dict[str, list[Any]] = {}
        # Until it is empty: then `_put` has this called again.
        while not self._queue.empty():
            table, row = self._queue.get()
            rows.setdefault(table, []).append(row)
        try:
            if self._is_writable:
                self._file.append(rows)
        except sqlite3.Error as error:
            self._is_writable = False
            self._notify(
                f"the journal {self._file.path} cannot be written ({error}): the job goes on without it; "
                "what it has is kept"
            )

    async def aclose(self) -> None:
        """Commit queued answers and close the file."""
        self._closed.set()
        await in_thread(self._close)

    def _close(self) -> None:
        self._thread.shutdown()
        self._file.close()


def request_name(call: Call[Any], listed: Mapping[str, LinkIds]) -> bytes:
    """Return a short hash of a request and the ids of its links; the text may have thousands of bytes."""
    ids = [*map(listed.get, call.keys, call.link_ids or repeat(()))] if listed else call.link_ids
    text = msgspec.json.encode((call.path, call.params, call.link_ids, ids))
    return hashlib.blake2b(text, digest_size=16).digest()


def _is_kept(call: Call[Any]) -> bool:
    """Return whether the links of a call are known: those of a tag may be others later."""
    return bool(call.link_ids) or "url_keys" in dict(call.params)


def had_ended(call: Call[Any], made: float) -> bool:
    """Return whether the period of a call was over for good when an answer was made (epoch seconds)."""
    end = call.period_end
    return end is not None and made > end.timestamp() + SETTLING_SECONDS

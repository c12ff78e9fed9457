"""Clicks of each slashtag by day, in a Parquet dataset that many workers write."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Mapping
from contextlib import aclosing
from datetime import UTC, datetime, tzinfo
from functools import partial
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

from msgspec import Struct

from .. import AsyncSession, DateRange, Day, ExportError, InvalidRequestError, ShortUrl
from .._internal import check_slashtag, in_thread, parse_zone
from ..export import TableFile, checked_path, clicks_table, load_arrow, remove_parts
from ..export import export_clicks as write_clicks
from ._job import Job, Progress
from ._worker import Done, GetCredentials

# One batch of the service: collect_each then finds out with whole batches which slashtags have clicks.
_KEYS_A_PART = 100
_TABLE = clicks_table("slashtag")
_NAME = re.compile(r"part-\d{5,}-[0-9a-f]{16}\.parquet")


class Written(Struct, frozen=True, kw_only=True):
    """Result of an export: `rows` written in `parts` files; `skipped` ones were finished before.

    `requests` were sent, `throttled` of them answered 429, without those of workers that died; `reconciles`
    is False where the service's days did not add up to its totals, or were left out; `seconds` is wall time.
    """

    rows: int
    parts: int
    skipped: int
    requests: int
    throttled: int
    reconciles: bool
    seconds: float


class _Part(Struct, frozen=True):
    """A file of the dataset and what it is to hold."""

    path: str
    query: DateRange | Day
    keys: tuple[str, ...]
    zone: tzinfo


def export_clicks(
    client: Any,
    keys: Iterable[str | ShortUrl],
    query: DateRange | Day,
    path: str | os.PathLike[str],
    *,
    parts: int | None = None,
    timezone: str | tzinfo | None = None,
    base_url: str | None = None,
    credentials: GetCredentials | None = None,
    progress: Progress | None = None,
    session_options: Mapping[str, Any] | None = None,
) -> Any:
    """Write the clicks of each slashtag by day as a Parquet dataset, a file for each part, by the workers.

    Rows are slashtag, date, clicks, zeros too, in the order of `keys`. `path` is a folder that all workers
    see under the same name; it is made if need be. Each file appears whole or not at all. Its name bears its
    number and a fingerprint of its keys, the days and the timezone, so that the same export run again skips
    what is finished, whatever became of the first run. Days that had not ended when a part was written stay
    as they were; end with yesterday, or use another folder each day. A folder that holds parts of another
    export is an ExportError: read together they would count twice.

    By default a part has 100 slashtags: the most that one request can ask for, and some hundred to a few
    thousand requests, which outlast its start and its file by far; so much is what a worker that dies loses.
    `parts` cuts into that many instead; the same number finds the same parts again.

    Returns Written, or an awaitable of it with an asynchronous client. Workers need the extra `parquet`.
    `base_url`, `credentials`, `session_options`, `progress` and errors as `collect`; raises ExportError
    where a file cannot be written (Statistics for a date or date range).
    """
    job = Job(client, base_url=base_url, credentials=credentials, session_options=session_options)
    if isinstance(keys, str | bytes):
        raise TypeError(f"keys takes an iterable of slashtags, not one {type(keys).__name__}")
    if parts is not None and parts < 1:
        raise InvalidRequestError(f"an export cannot be cut into {parts} parts")
    zone = parse_zone(timezone)
    # What "the last 30 days" are is settled once, here.
    resolved = query.resolve(zone, datetime.now(UTC)) if isinstance(query, DateRange) else query
    range_end = (session_options or {}).get("range_end", "inclusive")
    chosen = tuple(dict.fromkeys(map(check_slashtag, keys)))
    # Not sorted by hits, which would save requests: they change, and then the parts that are finished would
    # not be found again.
    # Workers run in folders of their own.
    folder = checked_path(path).absolute()
    pieces = [
        _Part(str(folder / _name(n, resolved, zone, range_end, some)), resolved, some, zone)
        for n, some in enumerate(_cut(chosen, parts))
    ]

    async def main() -> Written:
        began = time.monotonic()
        names = [Path(part.path).name for part in pieces]
        ((_, looked),) = [each async for each in job.run(_prepare, [(str(folder), names)])]
        finished = looked.value or set()
        left = [part for part, name in zip(pieces, names, strict=True) if name not in finished]
        done: list[Done[tuple[int, bool]]] = []
        skipped = len(pieces) - len(left)
        if skipped and progress is not None:
            progress(skipped, len(pieces))
        async with aclosing(job.run(_write, left)) as results:
            async for _, result in results:
                done.append(result)
                if progress is not None:
                    progress(skipped + len(done), len(pieces))
        if done:
            _ = [each async for each in job.run(_tidy, [[part.path for part in left]])]
        return _summary(done, skipped, time.monotonic() - began)

    return job.start(main)


def _cut(keys: tuple[str, ...], parts: int | None) -> list[tuple[str, ...]]:
    if parts is None:
        return [keys[at : at + _KEYS_A_PART] for at in range(0, len(keys), _KEYS_A_PART)]
    cuts = [len(keys) * n // parts for n in range(parts + 1)]
    return [keys[a:b] for a, b in pairwise(cuts) if a < b]


def _name(n: int, query: DateRange | Day, zone: tzinfo, range_end: str, keys: tuple[str, ...]) -> str:
    asked = "\0".join((repr(query), repr(zone), range_end, *keys))
    return f"part-{n:05d}-{sha256(asked.encode()).hexdigest()[:16]}.parquet"


def _summary(done: list[Done[tuple[int, bool]]], skipped: int, seconds: float) -> Written:
    values = [part.value for part in done if part.value is not None]
    # Each part has what its session had counted so far.
    sent: dict[str, int] = {}
    refused: dict[str, int] = {}
    for part in done:
        sent[part.session] = max(part.requests, sent.get(part.session, 0))
        refused[part.session] = max(part.throttled, refused.get(part.session, 0))
    return Written(
        rows=sum(rows for rows, _ in values),
        parts=len(values),
        skipped=skipped,
        requests=sum(sent.values()),
        throttled=sum(refused.values()),
        reconciles=all(reconciles for _, reconciles in values),
        seconds=seconds,
    )


async def _prepare(session: AsyncSession, asked: tuple[str, list[str]]) -> set[str]:
    """Make the folder; return the names of the parts that are finished."""
    folder, names = Path(asked[0]), set(asked[1])

    def look() -> set[str]:
        try:
            load_arrow()
        except ExportError as error:
            error.add_note("on each of the workers")
            raise
        try:
            folder.mkdir(parents=True, exist_ok=True)
            found = {file.name for file in folder.iterdir() if _NAME.fullmatch(file.name)}
        except OSError as error:
            raise ExportError(f"{folder} cannot be written: {error.strerror}") from None
        if other := sorted(found - names):
            raise ExportError(
                f"{folder} holds parts of another export, such as {other[0]}; use another folder"
            )
        return found

    return await in_thread(look)


async def _write(session: AsyncSession, part: _Part) -> tuple[int, bool]:
    """Write a part; return its rows, and whether the days add up."""
    # Not in a thread: if this is cancelled, nobody would have the file to abandon it.
    file = TableFile(part.path, _TABLE)
    try:
        summary = await write_clicks(session, part.query, file, keys=part.keys, timezone=part.zone)
        await in_thread(file.close)
    except BaseException:
        file.abandon()
        raise
    return summary.rows, summary.reconciles


async def _tidy(session: AsyncSession, paths: list[str]) -> None:
    """Remove what workers left behind that died over a part."""
    folder, names = Path(paths[0]).parent, [Path(path).name for path in paths]
    await in_thread(partial(remove_parts, folder, names, nobody_writes=True))

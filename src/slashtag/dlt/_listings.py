"""Second answers to a listing of links or tags: a backend that lags behind answers like any other."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import chain, pairwise
from typing import Any, Protocol, TypeVar


class _Record(Protocol):
    @property
    def id(self) -> int: ...
    @property
    def created_at(self) -> datetime | None: ...


R = TypeVar("R", bound=_Record)


async def with_latest(resource: Any, listed: Sequence[R]) -> tuple[list[R], bool]:
    """Return the records of a listing with what its latest page adds, and whether answers disagree.

    `resource` is `session.urls` or `session.tags`. The latest page is requested twice, each time over another
    connection, so that two backends which answer in turn are both asked. If it has records that the listing
    lacks, or lacks some that the listing has, all are listed again. What any of the answers has is kept, with
    the most hits. Records that are new in a later answer, or have more hits, may have come meanwhile: answers
    disagree if a later one lacks records, or hits, of an earlier one.
    """
    answers: list[Sequence[R]] = [listed]
    for _ in range(2):
        async with resource.list(orderby="-date", anew=True, prefetch=1).pages() as pages:
            page = await anext(pages, None)
            answers.append([] if page is None else page.items)
    ids = {record.id for record in listed}
    is_known = ids.issuperset(record.id for record in chain(*answers[1:]))
    disagree = any(_is_lost(earlier, later) for earlier, later in pairwise(answers))
    if disagree or not is_known:
        again = await resource.list(anew=True).to_list()
        disagree = disagree or any(_is_lost(earlier, again, is_whole=True) for earlier in answers)
        answers.append(again)
    found: dict[int, R] = {}
    for record in chain(*reversed(answers)):
        if record.id not in found or _hits(record) > _hits(found[record.id]):
            found[record.id] = record
    return [*found.values()], disagree


def _is_lost(earlier: Sequence[R], later: Sequence[R], *, is_whole: bool = False) -> bool:
    """Return whether records or hits of an answer are missing in a later one, a page of the latest."""
    begin = None
    if not is_whole and len(later) < len(earlier):
        begin = min(_times(later), default=None)
    hits = {record.id: _hits(record) for record in later}
    for record in earlier:
        is_due = begin is None or (record.created_at is not None and record.created_at > begin)
        if (record.id in hits or is_due) and hits.get(record.id, -1) < _hits(record):
            return True
    return False


def _times(records: Iterable[_Record]) -> Iterable[datetime]:
    return (record.created_at for record in records if record.created_at is not None)


def _hits(record: _Record) -> int:
    """Return the hits of a link; a tag has none."""
    return getattr(record, "hits", None) or 0

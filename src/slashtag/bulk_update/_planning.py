"""Changes compared with the present links and with what earlier runs did: what is left to send."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from .. import AsyncSession, InvalidRequestError, Progress, ShortUrl
from ..export import names_of_tags
from ._links import Difference, Links, differences, visible
from ._outcome_file import UNANSWERED, Outcomes, RowOutcome
from ._source import ChangeRow, ChangesError, Problem, Sheet


class Row(ChangeRow, frozen=True, kw_only=True):
    """Change with its link and what is known of it.

    `sent` is its outcome "sent", which identifies it in the file of outcomes; `url` is None where there is
    not just one link, as its only difference says. `is_done`: an earlier run did it, or sent it and the link
    is as it wants it. `is_unknown`: an earlier run sent it without getting an answer.
    """

    sent: RowOutcome
    url: ShortUrl | None
    differences: tuple[Difference, ...]
    is_done: bool
    is_unknown: bool


async def plan(
    session: AsyncSession, changes: Sheet | list[ChangeRow], earlier: Outcomes, progress: Progress | None
) -> list[Row]:
    """List the links of the account and return the rows; raises ChangesError for those that cannot be sent.

    A preview and an update plan alike.
    """
    names = await names_of_tags(session) if isinstance(changes, Sheet) else {}
    links = Links(await session.urls.list(progress=progress, anew=True).to_list())
    if isinstance(changes, Sheet):
        changes = changes.changes(links, names, earlier.left)
    rows = [_row(row, links, earlier) for row in changes]
    if problems := [Problem(*each) for each in _conflicts(rows, links)]:
        raise ChangesError("the list of changes", problems)
    return rows


def _row(row: ChangeRow, links: Links, earlier: Outcomes) -> Row:
    written = row.edited or row.change
    fingerprint = earlier.digest([getattr(written, name) for name in written.__struct_fields__])
    before = earlier.of.get(fingerprint)
    status = None if before is None else before.status
    key, url = row.change.key, None
    if before is not None and before.id in links.by_key and status != "failed":
        # The slashtag may have been changed since, also by this change.
        key = before.id
    try:
        url = links.find(key)
        found = tuple(differences(row.line, row.change, url))
    except InvalidRequestError as error:
        found = (Difference(row.line, row.change.key, "", str(error), ""),)
    is_latest = before is not None and earlier.is_latest(before)
    if row.edited is not None:
        # The present values decide, of those that a listing shows.
        is_latest = is_latest and all(each.member in ("password", "domain_id") for each in found)
    sent = RowOutcome(line=row.line, key=row.change.key, status="sent", fingerprint=fingerprint)
    if url is not None:
        sent = replace(sent, id=url.id, left_as=earlier.digest(visible(url, row.change)))
    is_unknown = status in UNANSWERED
    return Row(
        *(row.line, row.change, row.edited),
        sent=sent,
        url=url,
        differences=found,
        is_done=not found if is_unknown else status == "done" and (is_latest or not found),
        is_unknown=is_unknown,
    )


def _conflicts(rows: list[Row], links: Links) -> Iterator[tuple[int, str]]:
    """Yield (line, error) of rows that no order of sending makes right."""
    row_of: dict[int, Row] = {}
    for row in rows:
        if row.url is not None and (other := row_of.setdefault(row.url.id, row)) is not row:
            yield row.line, f"{row.change.key!r}: it is the link of line {other.line}"
    for row in row_of.values():
        # Links of other domains may have the same slashtag.
        new = None if row.is_done or row.change.domain_id is not None else row.change.slashtag
        for url in links.by_key.get(new or "", ()):
            if row.url is None or url.id == row.url.id or _domain(url) != _domain(row.url):
                continue
            problem = f"{new!r} is the slashtag of link {url.id} already"
            yield row.line, f"{problem}: rename that link in a run of its own first"


def _domain(url: ShortUrl) -> str:
    return (url.short_url or "").rpartition("://")[2].partition("/")[0].lower()

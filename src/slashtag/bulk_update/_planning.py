"""Changes compared with the present links and with what earlier runs did: what is left to send."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from .. import AsyncSession, Change, InvalidRequestError, Progress, ShortUrl
from .._internal import find_problems
from ..export import names_of_tags
from ._changes import ChangeRow, ChangesError, Links, Problem, Sheet
from ._outcome_file import UNANSWERED, Outcomes, RowOutcome


class Difference(Struct, frozen=True):
    """Member of a link that a change alters, or may alter if `now` is "?", as the listing lacks it."""

    line: int
    key: str | int
    member: str
    now: str
    new: str


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
    links = Links(await session.urls.list(progress=progress, anew=True).to_list(), names)
    if isinstance(changes, Sheet):
        changes = changes.changes(links)
    rows = [_row(row, links, earlier) for row in changes]
    line_of: dict[int, int] = {}
    if problems := [
        Problem(row.line, f"{row.change.key!r}: it is the link of line {line_of[row.url.id]}")
        for row in rows
        if row.url is not None and line_of.setdefault(row.url.id, row.line) != row.line
    ]:
        raise ChangesError("the list of changes", problems)
    return rows


def completed(change: Change, url: ShortUrl) -> Change:
    """Return the change with the link's present destination and redirect code if it gives none.

    Not with values that cannot be sent.
    """
    for name in ("destination", "redirect_code"):
        whole = replace(change, **{name: getattr(change, name) or getattr(url, name)})
        if not any(find_problems([(0, whole)], "line")):
            change = whole
    return change


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
        found = tuple(_differences(row.line, row.change, url))
    except InvalidRequestError as error:
        found = (Difference(row.line, row.change.key, "", str(error), ""),)
    is_latest = before is not None and earlier.last_sent.get(before.id) == fingerprint
    if row.edited is not None:
        # The present values decide, of those that a listing shows.
        is_latest = is_latest and all(each.member in ("password", "domain_id") for each in found)
    is_unknown = status in UNANSWERED
    return Row(
        *(row.line, row.change, row.edited),
        sent=RowOutcome(
            line=row.line,
            key=row.change.key,
            status="sent",
            id=None if url is None else url.id,
            fingerprint=fingerprint,
        ),
        url=url,
        differences=found,
        is_done=not found if is_unknown else status == "done" and (is_latest or not found),
        is_unknown=is_unknown,
    )


def _differences(line: int, change: Change, url: ShortUrl) -> Iterator[Difference]:
    """Yield what a change alters of a link, or may alter."""
    listed = url.to_dict()
    for name in change.__struct_fields__[1:]:
        new, now = getattr(change, name), listed.get(name, "?")
        if new is not None and (name not in listed or new != now):
            shown = "***" if name == "password" else str(new)
            yield Difference(line, change.key, name, "" if now is None else str(now), shown)

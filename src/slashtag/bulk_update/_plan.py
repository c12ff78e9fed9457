"""Changes compared with the present links and the outcomes of earlier runs: what is left to be sent.

A change is known by its link and by the values that it gives, not by the cells of its row:

    last change of the link, by the file of outcomes          the row
    none                                                      is to be sent
    done, and gave each value that the link does not have     is done
    done, and did not                                         is to be sent
    not answered, and the link has all values that it gave    as if that change was done
    not answered otherwise                                    is unknown, unless the link has all its values

Rows of an edited listing are done only if the link has all their values that a listing shows.
"""

from collections.abc import Iterable, Iterator

from msgspec import UNSET, Struct
from msgspec.structs import astuple, replace

from .. import AsyncSession, Change, InvalidRequestError, Progress, ShortUrl, UnexpectedResponseError
from .._internal import find_problems
from ..export import names_of_tags
from ._changes import ChangeRow, LinkIndex, Problem, Sheet, host_of
from ._outcome_file import UNANSWERED, OutcomeFile, RowOutcome


class Difference(Struct, frozen=True):
    """Member of a link that a change alters, or may alter if `now` is "?", as the listing lacks it."""

    line: int
    key: str | int
    member: str
    now: str
    new: str


class PlannedRow(Struct, frozen=True, kw_only=True):
    """Change by id, with its link and what is known of it.

    `sent` is its line in the file of outcomes when it is sent; `url` is None where there is not just one
    link, as its only difference says. `is_done`: an earlier run did it, or it was sent before and the link is
    as it wants it. `unanswered`: the last change of the link, which an earlier run sent without getting an
    answer; `found_done`: that change, if the link shows that it was done.
    """

    change: Change
    sent: RowOutcome
    url: ShortUrl | None
    differences: tuple[Difference, ...]
    is_done: bool
    unanswered: RowOutcome | None
    found_done: RowOutcome | None

    def is_left(self, *, repeat_lost: bool) -> bool:
        """Return whether the change is to be sent."""
        return not self.is_done and self.url is not None and (repeat_lost or self.unanswered is None)


async def plan(
    session: AsyncSession,
    changes: Sheet | list[ChangeRow],
    file: OutcomeFile,
    progress: Progress | None,
    *,
    repeat_lost: bool,
) -> tuple[list[PlannedRow], list[Problem]]:
    """List the links of the account and return the rows, and the errors of those that cannot be sent.

    A preview and an update plan alike.
    """
    names: dict[int, str] = {}
    problems: list[Problem] = []
    if isinstance(changes, Sheet):
        names = await names_of_tags(session)
        links = LinkIndex(await _links(session, progress, is_guarded=changes.is_guarded), names)

        def is_own(url: ShortUrl) -> bool:
            # Whatever `updated_at` says: nobody has changed it since.
            earlier = file.last.get(url.id)
            return earlier is not None and earlier.left_as == _state(file, url)

        changes, problems = changes.changes(links, is_own)
    else:
        links = LinkIndex(await _links(session, progress, is_guarded=False))
    rows = [_row(row, links, file) for row in changes]
    line_of: dict[int | None, int] = {}
    problems += [
        Problem(sent.line, f"{sent.key!r}: it is the link of line {line_of[sent.id]}")
        for sent in (row.sent for row in rows if row.url is not None)
        if line_of.setdefault(sent.id, sent.line) != sent.line
    ]
    left = [row for row in rows if row.is_left(repeat_lost=repeat_lost)]
    problems += _conflicts(left, links)
    return rows, problems


async def _links(session: AsyncSession, progress: Progress | None, *, is_guarded: bool) -> list[ShortUrl]:
    if not is_guarded:
        return await session.urls.list(progress=progress, anew=True).to_list()
    try:
        return await session._list_on_request(progress).to_list()
    except UnexpectedResponseError as error:
        if error.status == 200 and not error.repeatable:
            error.add_note(
                "whether a link was updated since it was listed cannot be told: reach the service without "
                "that cache, or leave out the column updated_at to send rows all the same"
            )
        raise


def _row(row: ChangeRow, links: LinkIndex, file: OutcomeFile) -> PlannedRow:
    change, url = row.change, None
    members = {name: file.digest((name, value)) for name, value in _given(change).items()}
    fingerprint = file.digest(row.edited or astuple(change))
    sent = RowOutcome(line=row.line, key=change.key, status="sent", members=members)

    def members_of(line: RowOutcome) -> dict[str, str]:
        if line.fingerprint is UNSET:
            return line.members
        # A line of version 1 tells whether it is of this very row, and no more.
        return members if line.fingerprint == fingerprint else {}

    # The slashtag may have been changed since, also by this change.
    earlier = file.last.get(change.key)
    known = None if earlier is None else _present(links, earlier)
    if earlier is not None and known is not None:
        given = members_of(earlier)
        is_same = any(given.get(name) == digest for name, digest in members.items())
        if not (is_same and _lacking(file, known, members).items() <= given.items()):
            known = None
    try:
        url = links.find(change.key if known is None else known.id)
        differences = tuple(find_differences(change, url, row.line))
        change = replace(change, key=url.id)
        sent = replace(sent, slashtag=url.slashtag, left_as=_state(file, url, change))
    except InvalidRequestError as error:
        differences = (Difference(row.line, change.key, "", str(error), ""),)

    last = earlier if url is None else file.last.get(url.id)
    unanswered = found_done = None
    is_done = False
    if last is not None:
        given, link = members_of(last), _present(links, last)
        if last.status in UNANSWERED:
            if given and link is not None and not _lacking(file, link, given):
                found_done = last
            else:
                unanswered = last
        lacking = members if url is None else _lacking(file, url, members)
        if unanswered is not None:
            is_done = not differences
        elif row.edited is not None:
            is_done = lacking.items() <= given.items() and lacking.keys().isdisjoint(VISIBLE)
        else:
            is_done = lacking.items() <= given.items()
    return PlannedRow(
        change=change,
        sent=replace(sent, id=url and url.id),
        url=url,
        differences=differences,
        is_done=is_done,
        unanswered=unanswered,
        found_done=found_done,
    )


#: Members of a change that a listing shows.
VISIBLE = ("destination", "slashtag", "redirect_code")


def _given(change: Change) -> dict[str, object]:
    """Return the values that a change gives, by member."""
    values = {name: getattr(change, name) for name in change.__struct_fields__[1:]}
    return {name: value for name, value in values.items() if value is not None}


def _state(file: OutcomeFile, url: ShortUrl, change: Change | None = None) -> str:
    """Return the keyed hash of what a listing shows of a link as it is, or as a change leaves it."""
    given = {} if change is None else _given(change)
    return file.digest([given.get(name, getattr(url, name)) for name in VISIBLE])


def _present(links: LinkIndex, line: RowOutcome) -> ShortUrl | None:
    """Return the link of a line as it is now."""
    return None if line.id is None else next(iter(links.by_key.get(line.id, ())), None)


def _lacking(file: OutcomeFile, url: ShortUrl, members: dict[str, str]) -> dict[str, str]:
    """Return the members, with their hashes, whose value a link does not have, or does not show."""
    return {
        name: digest
        for name, digest in members.items()
        if name not in VISIBLE or digest != file.digest((name, getattr(url, name)))
    }


def _conflicts(rows: Iterable[PlannedRow], links: LinkIndex) -> Iterator[Problem]:
    """Yield the rows whose link would get the slashtag of another one on its domain.

    A domain is known by its host; that of a `domain_id` is known by the id alone.
    """
    line_of: dict[int, int] = {}
    taken: dict[tuple[str | int, str], int] = {}
    found: list[tuple[int, str, int | None]] = []
    for row in rows:
        change, url, line = row.change, row.url, row.sent.line
        assert url is not None
        if change.slashtag not in (None, url.slashtag):
            line_of[url.id] = line
        elif change.domain_id is None:
            continue
        slashtag = change.slashtag or url.slashtag
        domain = host_of(url) if change.domain_id is None else change.domain_id
        if slashtag is None or domain == "":
            continue
        other = links.by_address.get((domain, slashtag)) if isinstance(domain, str) else None
        if other is not None and other.id != url.id:
            text = f"another link of {domain} has the slashtag {slashtag!r}: {other.id}"
            found.append((line, text, other.id))
        elif taken.setdefault((domain, slashtag), line) != line:
            text = f"line {taken[domain, slashtag]} gives the slashtag {slashtag!r} to another link"
            found.append((line, text, None))
    for line, text, other_id in found:
        if other_id in line_of:
            text += f", which line {line_of[other_id]} renames: rename that link in a run of its own first"
            text += "; for a swap, to a third slashtag"
        yield Problem(line, text)


def completed(change: Change, url: ShortUrl) -> Change:
    """Return the change with the link's present destination and redirect code if it gives none.

    Not with values that cannot be sent.
    """
    for name in ("destination", "redirect_code"):
        whole = replace(change, **{name: getattr(change, name) or getattr(url, name)})
        if not any(find_problems([(0, whole)], "line")):
            change = whole
    return change


def find_differences(change: Change, url: ShortUrl, line: int = 0) -> Iterator[Difference]:
    """Yield what a change alters of a link, or may alter."""
    for name, new in _given(change).items():
        now = getattr(url, name) if name in VISIBLE else "?"
        if name not in VISIBLE or new != now:
            shown = "***" if name == "password" else str(new)
            yield Difference(line, change.key, name, "" if now is None else str(now), shown)

"""Changes read from a file, which may be an edited listing, checked, and compared with the links.

What the present links and the outcomes of earlier runs say is left out: the rest is to be sent.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import astuple, replace

from .. import AsyncSession, Change, InvalidRequestError, Progress, ShortUrl
from .._internal import find_problems, many
from ..export import names_of_tags
from ..tables import VOLATILE, read_table
from ._outcome_file import UNANSWERED, OutcomeFile, RowOutcome

#: Columns of a file of changes, those of a listing that cannot be changed, and those that do not count.
COLUMNS = ("slashtag", "id", "destination", "new_slashtag", "redirect_code", "password", "domain_id")
_READ_ONLY = ("short_url", "tag_id", "tag_name")
_IGNORED = ("created_at", *VOLATILE)
_NUMBERS = {"id", "redirect_code", "domain_id", "tag_id"}


class Problem(Struct, frozen=True, order=True):
    """Error of one row."""

    line: int
    text: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}"


class ChangesError(InvalidRequestError):
    """Errors of a list of changes, of which nothing was sent.

    `problems` lists all errors in the order of the lines; none shows a password.
    """

    def __init__(self, where: str, problems: Iterable[Problem]) -> None:
        self.problems = sorted(problems)
        self.summary = f"{where} has {many(len(self.problems), 'error')}; nothing was sent"
        super().__init__(f"{self.summary}: {'; '.join(map(str, self.problems[:3]))}")


class LinkIndex:
    """The links of an account, by slashtag and by id, and the names of its tags."""

    def __init__(self, urls: Iterable[ShortUrl] = (), tags: Mapping[int, str] | None = None) -> None:
        self.tags = tags or {}
        self.by_key: dict[str | int, list[ShortUrl]] = {}
        for url in urls:
            self.by_key[url.id] = [url]
            if url.slashtag is not None:
                self.by_key.setdefault(url.slashtag, []).append(url)

    def find(self, key: str | int) -> ShortUrl:
        """Return the link with a slashtag or an id; raises InvalidRequestError if there is not just one."""
        found = self.by_key.get(key, [])
        if len(found) != 1:
            raise InvalidRequestError("several links: give the id" if found else "no such link")
        if any(url is not found[0] for url in self.by_key.get(str(found[0].id), ())):
            raise InvalidRequestError(f"its id, {found[0].id}, is also the slashtag of another link")
        return found[0]


class ChangeRow(Struct, frozen=True):
    """One change and its line in the file, or its position among the changes, from 1.

    `edited` has the cells of a row of an edited listing; its change is what differs from the present link.
    """

    line: int
    change: Change
    edited: Mapping[str, str] | None = None


class Sheet(Struct, frozen=True):
    """File of changes: the cells of its rows by column, and whether they are those of a listing.

    A table that `read_table` reads, with some of COLUMNS, one of them `slashtag` or `id`; or with columns of
    `slashtag urls list`. An empty cell omits its member.
    """

    where: str
    is_listing: bool
    rows: list[tuple[int, dict[str, str]]]

    def changes(self, links: LinkIndex) -> list[ChangeRow]:
        """Return its changes, of a listing the rows that differ from their link, found by id.

        Raises ChangesError with all errors of the rows, such as a changed read-only column, or an
        `updated_at` that is not the link's.
        """
        problems: list[Problem] = []
        rows: list[ChangeRow] = []
        for line, cells in self.rows:
            try:
                if not self.is_listing:
                    rows.append(ChangeRow(line, _change(cells)))
                elif given := _edited(cells, links):
                    listed = {name: cells[name] for name in COLUMNS if cells.get(name)}
                    if "slashtag" in given:  # not what names the link
                        given["new_slashtag"] = given.pop("slashtag")
                    rows.append(ChangeRow(line, _change(given | {"id": cells["id"]}), listed))
            except InvalidRequestError as error:
                problems.append(Problem(line, str(error)))
        return checked(rows, self.where, problems)


def read_sheet(path: str | os.PathLike[str]) -> Sheet:
    """Read the cells of a file; raises ChangesError for its columns, InvalidRequestError for other files."""
    header, rows = read_table(path)
    if not header:
        raise InvalidRequestError(f"{path} is empty: the columns are {', '.join(COLUMNS)}")
    of_listings = {*_READ_ONLY, *_IGNORED}
    is_listing = {"id", "slashtag"} <= {*header} and not of_listings.isdisjoint(header)
    wrong = [
        f"no column can be called {name!r}; there are {', '.join(COLUMNS)}"
        for name in {*header}.difference(COLUMNS, of_listings if is_listing else ())
    ]
    if not {"slashtag", "id"} & {*header}:
        wrong.append("there must be a column slashtag or id")
    if wrong:
        raise ChangesError(str(path), [Problem(1, text) for text in wrong])
    for _, row in rows:
        # Data frames write numbers with a point in a column with gaps.
        row.update({name: row[name].removesuffix(".0") for name in _NUMBERS & row.keys()})
    return Sheet(str(path), is_listing, rows)


def checked(
    rows: list[ChangeRow], where: str = "the list of changes", problems: Iterable[Problem] = ()
) -> list[ChangeRow]:
    """Return the rows; raises ChangesError for their errors, and for problems found before."""
    found = [Problem(*each) for each in find_problems(((row.line, row.change) for row in rows), "line")]
    if found or problems:
        raise ChangesError(where, [*problems, *found])
    return rows


def _edited(cells: Mapping[str, str], links: LinkIndex) -> dict[str, str]:
    """Return the cells to send: those that differ from the link, and those that a listing does not have.

    Empty cells do not count. Raises InvalidRequestError where a read-only column differs, or where the link
    was, or may have been, updated since it was listed.
    """
    url = links.find(_number("id", cells["id"]))
    listed_at = cells.get("updated_at", "")
    is_old = bool(listed_at)
    with suppress(ValueError):
        is_old = datetime.fromisoformat(listed_at).replace(tzinfo=None, microsecond=0) != url.updated_at
    present = {name: "" if value is None else str(value) for name, value in url.to_dict().items()}
    present["tag_name"] = links.tags.get(url.tag_id or 0, "")
    given: dict[str, str] = {}
    wrong: list[str] = []
    for name, cell in cells.items():
        if not cell or cell == present.get(name) or name in ("id", *_IGNORED):
            continue
        if name not in _READ_ONLY:
            given[name] = cell
        # The short URL of an updated link may be another one.
        elif not (name == "short_url" and is_old):
            wrong.append(f"{name} cannot be changed; it is {present.get(name, '')!r}")
    changed = ", ".join(name for name in given if name in present)
    if is_old and changed:
        wrong.append(
            f"updated_at is {listed_at!r} and not that of the link, so {changed} may be of somebody else: "
            "list it again, or leave out the column updated_at to send the row all the same"
        )
    if wrong:
        raise InvalidRequestError("; ".join(wrong))
    return given


def _change(cells: Mapping[str, str]) -> Change:
    given: dict[str, Any] = {name: cell for name, cell in cells.items() if cell}
    given |= {name: _number(name, given[name]) for name in given.keys() & _NUMBERS}
    keys = [given.pop(name) for name in ("slashtag", "id") if name in given]
    if len(keys) != 1:
        raise InvalidRequestError("there must be a slashtag or an id, and not both")
    return Change(keys[0], slashtag=given.pop("new_slashtag", None), **given)


def _number(name: str, cell: str) -> int:
    """Return a cell as a whole number; every one of so many digits fits into 64 bits."""
    if not (cell.isascii() and cell.isdecimal() and len(cell) <= 18):
        raise InvalidRequestError(f"{name} must be a number, not {cell!r}")
    return int(cell)


class Difference(Struct, frozen=True):
    """Member of a link that a change alters, or may alter if `now` is "?", as the listing lacks it."""

    line: int
    key: str | int
    member: str
    now: str
    new: str


class PlannedRow(Struct, frozen=True, kw_only=True):
    """Change by id, with its link and what is known of it.

    `sent` is its outcome "sent", which identifies it in the file of outcomes; `url` is None where there is
    not just one link, as its only difference says. `is_done`: an earlier run did it, or sent it and the link
    is as it wants it. `is_unknown`: an earlier run sent it without getting an answer.
    """

    change: Change
    sent: RowOutcome
    url: ShortUrl | None
    differences: tuple[Difference, ...]
    is_done: bool
    is_unknown: bool


async def plan(
    session: AsyncSession, changes: Sheet | list[ChangeRow], file: OutcomeFile, progress: Progress | None
) -> list[PlannedRow]:
    """List the links of the account and return the rows; raises ChangesError for those that cannot be sent.

    A preview and an update plan alike.
    """
    names = await names_of_tags(session) if isinstance(changes, Sheet) else {}
    links = LinkIndex(await session.urls.list(progress=progress, anew=True).to_list(), names)
    if isinstance(changes, Sheet):
        changes = changes.changes(links)
    rows = [_row(row, links, file) for row in changes]
    line_of: dict[int | None, int] = {}
    if problems := [
        Problem(sent.line, f"{sent.key!r}: it is the link of line {line_of[sent.id]}")
        for sent in (row.sent for row in rows if row.url is not None)
        if line_of.setdefault(sent.id, sent.line) != sent.line
    ]:
        raise ChangesError("the list of changes", problems)
    return rows


def _row(row: ChangeRow, links: LinkIndex, file: OutcomeFile) -> PlannedRow:
    change, url = row.change, None
    fingerprint = file.digest(row.edited or astuple(change))
    sent = RowOutcome(line=row.line, key=change.key, status="sent", fingerprint=fingerprint)
    # What was never sent has to be done, as what has failed.
    last = file.last_outcome.get(fingerprint, replace(sent, status="failed"))
    # The slashtag may have been changed since, also by this change.
    known = last.id if last.status != "failed" and last.id in links.by_key else None
    try:
        url = links.find(known or change.key)
        differences = tuple(_differences(row.line, change, url))
        change = replace(change, key=url.id)
    except InvalidRequestError as error:
        differences = (Difference(row.line, change.key, "", str(error), ""),)
    is_latest = file.last_sent.get(last.id) == fingerprint
    if row.edited:
        # The present values decide, of those that a listing shows.
        is_latest = is_latest and all(each.member in ("password", "domain_id") for each in differences)
    is_unknown = last.status in UNANSWERED
    return PlannedRow(
        change=change,
        sent=replace(sent, id=url and url.id),
        url=url,
        differences=differences,
        is_done=not differences if is_unknown else last.status == "done" and (is_latest or not differences),
        is_unknown=is_unknown,
    )


def completed(change: Change, url: ShortUrl) -> Change:
    """Return the change with the link's present destination and redirect code if it gives none.

    Not with values that cannot be sent.
    """
    for name in ("destination", "redirect_code"):
        whole = replace(change, **{name: getattr(change, name) or getattr(url, name)})
        if not any(find_problems([(0, whole)], "line")):
            change = whole
    return change


def _differences(line: int, change: Change, url: ShortUrl) -> Iterator[Difference]:
    """Yield what a change alters of a link, or may alter."""
    listed = url.to_dict()
    for name in change.__struct_fields__[1:]:
        new, now = getattr(change, name), listed.get(name, "?")
        if new is not None and (name not in listed or new != now):
            shown = "***" if name == "password" else str(new)
            yield Difference(line, change.key, name, "" if now is None else str(now), shown)

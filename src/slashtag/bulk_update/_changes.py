"""Changes read from a file, which may be an edited listing, and checked."""

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

from msgspec import Struct

from .. import Change, InvalidRequestError, ShortUrl
from .._internal import MAX_SLASHTAG, find_problems, many
from ..tables import VOLATILE, read_table

#: Columns of a file of changes, those of a listing that cannot be changed, and those that do not count.
COLUMNS = ("slashtag", "id", "destination", "new_slashtag", "redirect_code", "password", "domain_id")
_READ_ONLY = ("short_url", "tag_id", "tag_name")
#: The error of each changed tag; equal, so that they can be told together.
_TAG = (
    "tag_name cannot be changed: the service's API cannot give a link another tag; its dashboard can, and "
    "statistics by tag follow"
)
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

    `problems` lists all errors in the order of the lines, `doubts` what is doubtful of the other rows; none
    shows a password.
    """

    _kind = "error"

    def __init__(self, where: str, problems: Iterable[Problem], doubts: Iterable[Problem] = ()) -> None:
        self.problems, self.doubts = sorted(problems), sorted(doubts)
        found = many(len(self.problems), self._kind)
        if self.doubts:
            found += f" and {many(len(self.doubts), DoubtfulChangesError._kind)}"
        self.summary = f"{where} has {found}; nothing was sent"
        super().__init__(f"{self.summary}: {'; '.join(map(str, self.problems[:3]))}")


class DoubtfulChangesError(ChangesError):
    """Values of changes that are more likely mistakes than meant, and were not confirmed."""

    _kind = "doubtful value"


def host_of(url: ShortUrl) -> str:
    """Return the domain of a link, empty if its short URL cannot be read."""
    return (url.short_url or "").rpartition("://")[2].partition("/")[0].lower()


class LinkIndex:
    """The links of an account, by slashtag, id and short URL, and the names of its tags."""

    def __init__(self, urls: Iterable[ShortUrl] = (), tags: Mapping[int, str] | None = None) -> None:
        self.tags = tags or {}
        self.by_key: dict[str | int, list[ShortUrl]] = {}
        self.by_address: dict[tuple[str, str], ShortUrl] = {}
        for url in urls:
            self.by_key[url.id] = [url]
            if url.slashtag is not None:
                self.by_key.setdefault(url.slashtag, []).append(url)
                self.by_address[host_of(url), url.slashtag] = url

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

    def __repr__(self) -> str:
        return f"ChangeRow({self.line}, {self.change!r})"  # cells may have a password


class Sheet(Struct, frozen=True):
    """File of changes: the cells of its rows by column, and whether they are those of a listing.

    A table that `read_table` reads, with some of COLUMNS, one of them `slashtag` or `id`; or with columns of
    `slashtag urls list`. An empty cell leaves its value as it is.
    """

    where: str
    is_listing: bool
    rows: list[tuple[int, dict[str, str]]]

    def __repr__(self) -> str:
        return f"Sheet({self.where!r}, {many(len(self.rows), 'row')})"  # cells may have a password

    @property
    def is_guarded(self) -> bool:
        """Whether rows must not overwrite what was changed since they were listed."""
        return self.is_listing and any(cells.get("updated_at") for _, cells in self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def changes(
        self, links: LinkIndex, is_own: Callable[[ShortUrl], bool] = lambda _: False
    ) -> tuple[list[ChangeRow], list[Problem]]:
        """Return its changes, of a listing the rows that differ from their link, found by id; and errors.

        Errors are such as a changed read-only column, or an `updated_at` that is not the link's, unless
        `is_own` says that a link is as this file left it.
        """
        problems: list[Problem] = []
        rows: list[ChangeRow] = []
        for line, cells in self.rows:
            try:
                if not self.is_listing:
                    rows.append(ChangeRow(line, _change(cells)))
                elif given := _edited(cells, links, is_own):
                    listed = {name: cells[name] for name in COLUMNS if cells.get(name)}
                    if "slashtag" in given:  # not what names the link
                        given["new_slashtag"] = given.pop("slashtag")
                    rows.append(ChangeRow(line, _change(given | {"id": cells["id"]}), listed))
            except InvalidRequestError as error:
                problems.append(Problem(line, str(error)))
        return checked(rows, problems)


def read_sheet(path: str | os.PathLike[str]) -> Sheet:
    """Read the cells of a file; raises ChangesError for its columns, InvalidRequestError for other files."""
    header, rows = read_table(path)
    if not header:
        raise InvalidRequestError(f"{path} is empty: the columns are {', '.join(COLUMNS)}")
    of_listings = {*_READ_ONLY, *_IGNORED}
    is_listing = {"id", "slashtag"} <= {*header} and not of_listings.isdisjoint(header)
    wrong = [
        f"no column can be called {name!r}: delete it, or correct its name; there are {', '.join(COLUMNS)}"
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


def checked(rows: list[ChangeRow], problems: Iterable[Problem] = ()) -> tuple[list[ChangeRow], list[Problem]]:
    """Return the rows without errors, and all errors, those that were found before first."""
    found = [Problem(*each) for each in find_problems(((row.line, row.change) for row in rows), "line")]
    lines = {problem.line for problem in found}
    return [row for row in rows if row.line not in lines], [*problems, *found]


def _edited(cells: Mapping[str, str], links: LinkIndex, is_own: Callable[[ShortUrl], bool]) -> dict[str, str]:
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
            told = f"{name} cannot be changed; it is {present.get(name, '')!r}"
            wrong.append(_TAG if name.startswith("tag") else told)
    changed = ", ".join(name for name in given if name in present)
    if is_old and changed and not is_own(url):
        wrong.append(
            f"updated_at is {listed_at!r}, and that of the link {str(url.updated_at)!r}: since it was listed "
            f"{changed} may have been changed; list the links again, or leave out the column updated_at to "
            "send the row all the same"
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
    """Return a cell as a whole number, as long as a slashtag may be."""
    if not (cell.isascii() and cell.isdecimal() and len(cell) <= MAX_SLASHTAG):
        raise InvalidRequestError(f"{name} must be a number, not {cell!r}")
    return int(cell)

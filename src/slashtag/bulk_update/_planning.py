"""Which changes to make: read from a file, checked as a whole, compared with the links of the account."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from .. import Change, InvalidRequestError, ShortUrl
from .._internal import REDIRECT_CODES, conflicts
from ._cells import read_cells
from ._edited import READ_ONLY, VOLATILE, edits, is_listing, is_updated, problems_of

KEYS = ("slashtag", "id")
#: Columns of a file of changes, and the members of a Change that they give.
MEMBERS = {
    "destination": "destination",
    "new_slashtag": "slashtag",
    "redirect_code": "redirect_code",
    "password": "password",
    "domain_id": "domain_id",
}
COLUMNS = (*KEYS, *MEMBERS)
#: Columns of a listing whose cells are compared with the link.
_LISTED = ("destination", "redirect_code", "slashtag")
_NUMBERS = ("id", "redirect_code", "domain_id")
#: Every number of so many digits fits into 64 bits.
MAX_DIGITS = 18


class ChangeRow(Struct, frozen=True):
    """One change and its number: the line of its file, or its place among the changes, from 1."""

    line: int
    change: Change

    @property
    def repeatable(self) -> bool:
        """Whether it can be sent again after a lost answer: a rename by slashtag may not find its link."""
        return self.change.call().repeatable


class Problem(Struct, frozen=True, order=True):
    """What is wrong with one row."""

    line: int
    text: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}"


class ChangesError(InvalidRequestError):
    """Changes that cannot all be made as they are; nothing was sent.

    `problems` lists everything that is wrong, in the order of the lines; none shows a password.
    """

    def __init__(self, where: str, problems: Iterable[Problem]) -> None:
        self.problems = sorted(problems)
        errors = f"{len(self.problems):,} error{'s' if len(self.problems) > 1 else ''}"
        self.summary = f"{where} has {errors}; nothing was sent"
        super().__init__(f"{self.summary}: {'; '.join(map(str, self.problems[:3]))}")


class Difference(Struct, frozen=True):
    """A member of a link that a change alters, or may alter where `now` is "?": the listing lacks it."""

    line: int
    key: str | int
    member: str
    now: str
    new: str


def read_changes(
    path: str | os.PathLike[str],
    *,
    data: bytes | None = None,
    links: Iterable[ShortUrl] | None = None,
    tag_names: Mapping[int, str] | None = None,
) -> list[ChangeRow]:
    """Read a file of changes, with some of COLUMNS, one of them `slashtag` or `id`; or an edited listing.

    CSV with commas, semicolons or tabs, or an .xlsx workbook (extra `xlsx`). An empty cell leaves its member
    out. A file with the columns of `slashtag urls list` needs the `links` of the account (and `tag_names`, to
    check that column): rows that differ from their link, found by id, are changes, with its present
    destination and redirect code where these do not differ; a changed read-only column is an error. `data`
    is the content of the file where it was read already. Raises
    ChangesError with everything that is wrong with the rows, InvalidRequestError for other files.
    """
    path = Path(path)
    problems: list[Problem] = []
    rows: list[ChangeRow] = []
    cells = read_cells(path, data)
    header = normalized(next(cells, (1, list[str]()))[1])
    edited = is_listing(header)
    if edited and links is None:
        raise InvalidRequestError(f"{path} is a listing of links: pass links= to compare it with")
    present = Links(links or ())
    problems += _header_problems(header, (*COLUMNS, *READ_ONLY, *VOLATILE) if edited else COLUMNS)
    for line, values in () if problems else cells:
        if not any(values):
            continue
        if len(values) != len(header):
            problems.append(Problem(line, f"{len(values)} cells, and {len(header)} columns"))
            continue
        if edited:
            row = _edited_row(line, header, values, present, tag_names, problems)
        else:
            row = _row(line, header, values, problems)
        if row is not None:
            rows.append(row)
    check_rows(rows, str(path), problems)
    return rows


def needs_links(path: str | os.PathLike[str], *, data: bytes | None = None) -> bool:
    """Return whether a file of changes is a listing, for which `read_changes` takes links."""
    return is_listing(normalized(next(read_cells(Path(path), data), (1, list[str]()))[1]))


def normalized(header: Sequence[str]) -> list[str]:
    """Return the names of columns as COLUMNS has them, whatever a spreadsheet made of them."""
    return [name.strip().lower().replace(" ", "_") for name in header]


def _edited_row(
    line: int,
    header: list[str],
    values: list[str],
    links: Links,
    tag_names: Mapping[int, str] | None,
    problems: list[Problem],
) -> ChangeRow | None:
    """Return the change of a row of an edited listing, None where nothing differs or with a problem."""
    cells = dict(zip(header, values, strict=True))
    key = cells["id"]
    is_id = key.isascii() and key.isdecimal() and len(key) <= MAX_DIGITS
    found = links.find(int(key)) if is_id else []
    if not found:
        problems.append(Problem(line, f"the account has no link with the id {key!r}"))
        return None
    (url,) = found
    differing = dict(edits(cells, url, tag_names))
    wrong = list(problems_of(differing.items(), updated=is_updated(cells, url)))
    problems += [Problem(line, text) for text in wrong]
    given = {name: cell if name in differing or name not in _LISTED else "" for name, cell in cells.items()}
    given = {name: given.get(name, "") for name in (*MEMBERS, "slashtag")}
    given["new_slashtag"] = given.pop("slashtag") or given["new_slashtag"]
    if wrong or not any(given.values()):
        return None
    row = _row(line, ["id", *given], [key, *given.values()], problems)
    return None if row is None else ChangeRow(line, completed(row.change, url))


def check_rows(rows: Sequence[ChangeRow], where: str, problems: Iterable[Problem] = ()) -> None:
    """Raise ChangesError for problems found so far, and for rows that depend on each other."""
    found = list(problems)
    for conflict in conflicts(row.change for row in rows):
        row, line = rows[conflict.at], rows[conflict.other].line
        key, new = row.change.key, row.change.slashtag
        text = {
            "key": f"{key!r} is changed on line {line} already",
            "slashtag": f"the link of line {line} is renamed to {new!r} too",
            "swap": f"{new!r}, which line {line} changes, cannot be a new slashtag as well",
        }
        found.append(Problem(row.line, text[conflict.rule]))
    if found:
        raise ChangesError(where, found)


def rows_of(changes: Iterable[Change | ChangeRow]) -> list[ChangeRow]:
    """Number changes and check them; raises ChangesError."""
    rows = [
        change if isinstance(change, ChangeRow) else ChangeRow(n, change)
        for n, change in enumerate(changes, 1)
    ]
    problems: list[Problem] = []
    for row in rows:
        try:
            row.change.call()
        except InvalidRequestError as error:
            problems.append(Problem(row.line, str(error)))
    check_rows(rows, "the list of changes", problems)
    return rows


def _header_problems(header: list[str], columns: Sequence[str]) -> Iterator[Problem]:
    for name in header:
        if name not in columns:
            yield Problem(1, f"no column can be called {name!r}; there are {', '.join(COLUMNS)}")
    if len(set(header)) < len(header):
        yield Problem(1, "a column is there twice")
    if not set(KEYS) & set(header):
        yield Problem(1, "there must be a column slashtag or id")


def _row(line: int, header: list[str], cells: list[str], problems: list[Problem]) -> ChangeRow | None:
    given: dict[str, str | int] = {}
    before = len(problems)
    for name, cell in zip(header, cells, strict=True):
        if name in _NUMBERS and cell:
            if cell.isascii() and cell.isdecimal() and len(cell) <= MAX_DIGITS:
                given[name] = int(cell)
            else:
                problems.append(Problem(line, f"{name} must be a number, not {cell!r}"))
        elif cell:
            given[name] = cell
    if len(problems) > before:
        return None
    keys = [given[name] for name in KEYS if name in given]
    if len(keys) != 1:
        problems.append(Problem(line, "there must be a slashtag or an id, and not both"))
        return None
    members = {member: given[name] for name, member in MEMBERS.items() if name in given}
    change = msgspec.convert({"key": keys[0], **members}, Change)
    try:
        change.call()
    except InvalidRequestError as error:
        text = str(error).replace("pass the link's id as an int", "give its id, in the column id")
        problems.append(Problem(line, text))
        return None
    return ChangeRow(line, change)


class Links:
    """The links of an account, by slashtag and by id."""

    def __init__(self, urls: Iterable[ShortUrl]) -> None:
        self._by_id: dict[int, ShortUrl] = {}
        self._by_slashtag: dict[str, list[ShortUrl]] = {}
        for url in urls:
            self._by_id[url.id] = url
            self._by_slashtag.setdefault(url.slashtag, []).append(url)

    def find(self, key: str | int) -> list[ShortUrl]:
        """Return the links that a key means; more than one where several domains have the slashtag."""
        if isinstance(key, int):
            return [self._by_id[key]] if key in self._by_id else []
        return self._by_slashtag.get(key, [])

    def resolve(self, rows: Iterable[ChangeRow]) -> Mapping[int, ShortUrl]:
        """Return the link of each row by its line.

        Raises ChangesError for rows that name no link, several, or the link of another row.
        """
        found: dict[int, ShortUrl] = {}
        lines: dict[int, int] = {}
        problems: list[Problem] = []
        for row in rows:
            key, urls = row.change.key, self.find(row.change.key)
            if not urls:
                problems.append(Problem(row.line, f"the account has no link {key!r}"))
            elif len(urls) > 1:
                problems.append(Problem(row.line, f"several links have the slashtag {key!r}: give the id"))
            elif urls[0].id in lines:
                problems.append(Problem(row.line, f"it is the link of line {lines[urls[0].id]}"))
            else:
                lines[urls[0].id] = row.line
                found[row.line] = urls[0]
        if problems:
            raise ChangesError("the list of changes", problems)
        return found


def completed(change: Change, url: ShortUrl) -> Change:
    """Return the change with the link's present destination and redirect code where it gives none.

    It names the link by id: a rename may then be repeated.
    """
    code = url.redirect_code if url.redirect_code in REDIRECT_CODES else None
    return Change(
        url.id,
        change.destination or url.destination or None,
        change.slashtag,
        change.redirect_code or code,
        change.password,
        change.domain_id,
    )


def differences(row: ChangeRow, url: ShortUrl) -> Iterator[Difference]:
    """Yield what a change alters of a link, or may alter."""
    change = row.change
    for name, now in (
        ("destination", url.destination),
        ("slashtag", url.slashtag),
        ("redirect_code", url.redirect_code),
    ):
        new = getattr(change, name)
        if new is not None and new != now:
            yield Difference(row.line, change.key, name, "" if now is None else str(now), str(new))
    if change.password is not None:
        yield Difference(row.line, change.key, "password", "?", "***")
    if change.domain_id is not None:
        yield Difference(row.line, change.key, "domain_id", "?", str(change.domain_id))

"""Changes read from a file, checked as a whole and compared with the links of the account."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from .. import Change, InvalidRequestError, ShortUrl
from .._internal import REDIRECT_CODES, conflicts, many
from ._cells import read_cells
from ._edited import READ_ONLY, VOLATILE, edited_cells, is_listing

#: Columns of a file of changes.
COLUMNS = ("slashtag", "id", "destination", "new_slashtag", "redirect_code", "password", "domain_id")
_KEYS = ("slashtag", "id")
_NUMBERS = ("id", "redirect_code", "domain_id")
#: Every number of so many digits fits into 64 bits.
_MAX_DIGITS = 18


class ChangeRow(Struct, frozen=True):
    """One change and its line in the file, or its position among the changes, from 1."""

    line: int
    change: Change


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
        errors = many(len(self.problems), "error")
        self.summary = f"{where} has {errors}; nothing was sent"
        super().__init__(f"{self.summary}: {'; '.join(map(str, self.problems[:3]))}")


class Difference(Struct, frozen=True):
    """Member of a link that a change alters, or may alter if `now` is "?", as the listing lacks it."""

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

    CSV with commas, semicolons or tabs, or an .xlsx workbook (extra `xlsx`). An empty cell omits its member.
    A file with the columns of `slashtag urls list` needs the `links` of the account, and `tag_names` to check
    that column: rows that differ from their link, found by id, are changes, completed with its present
    destination and redirect code; a changed read-only column is an error. `data` is the content of the file
    if it was read already. Raises ChangesError with all errors of the rows, InvalidRequestError for other
    files.
    """
    path = Path(path)
    cells = read_cells(path, data)
    header = _header(cells, path)
    listing = is_listing(header)
    if listing and links is None:
        raise InvalidRequestError(f"{path} is a listing of links: pass links= to compare it with")
    present = Links(links or ())
    problems = list(_header_problems(header, (*COLUMNS, *READ_ONLY, *VOLATILE) if listing else COLUMNS))
    rows: list[ChangeRow] = []
    for line, values in () if problems else cells:
        if not any(values):
            continue
        try:
            if len(values) != len(header):
                raise InvalidRequestError(f"{len(values)} cells, and {len(header)} columns")
            row = dict(zip(header, values, strict=True))
            change = _edited_change(row, present, tag_names) if listing else _change(row)
        except InvalidRequestError as error:
            problems.append(Problem(line, str(error)))
        else:
            if change is not None:
                rows.append(ChangeRow(line, change))
    _check(rows, str(path), problems)
    return rows


def needs_links(path: str | os.PathLike[str], *, data: bytes | None = None) -> bool:
    """Return whether a file of changes is a listing, for which `read_changes` takes links."""
    return is_listing(_header(read_cells(Path(path), data), Path(path)))


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
    _check(rows, "the list of changes", problems)
    return rows


def _check(rows: Sequence[ChangeRow], where: str, problems: list[Problem]) -> None:
    """Raise ChangesError for problems found so far, and for rows that depend on each other."""
    for conflict in conflicts(row.change for row in rows):
        row, line = rows[conflict.at], rows[conflict.other].line
        key, new = row.change.key, row.change.slashtag
        text = {
            "key": f"{key!r} is changed on line {line} already",
            "slashtag": f"the link of line {line} is renamed to {new!r} too",
            "swap": f"{new!r}, which line {line} changes, cannot be a new slashtag as well",
        }
        problems.append(Problem(row.line, text[conflict.rule]))
    if problems:
        raise ChangesError(where, problems)


def _header(cells: Iterator[tuple[int, list[str]]], path: Path) -> list[str]:
    """Read the names of the columns; spreadsheets may have changed blanks and capitals."""
    _, names = next(cells, (1, list[str]()))
    if not any(names):
        raise InvalidRequestError(
            f"{path} is empty: its first line must name the columns, which are {', '.join(COLUMNS)}"
        )
    return [name.strip().lower().replace(" ", "_") for name in names]


def _header_problems(header: list[str], columns: Sequence[str]) -> Iterator[Problem]:
    for name in header:
        if name not in columns:
            yield Problem(1, f"no column can be called {name!r}; there are {', '.join(COLUMNS)}")
    if len(set(header)) < len(header):
        yield Problem(1, "a column is there twice")
    if not set(_KEYS) & set(header):
        yield Problem(1, "there must be a column slashtag or id")


def _change(cells: Mapping[str, str]) -> Change:
    given: dict[str, Any] = {name: cell for name, cell in cells.items() if cell}
    numbers = {name: given[name] for name in _NUMBERS if name in given}
    wrong = [f"{name} must be a number, not {cell!r}" for name, cell in numbers.items() if not _is_id(cell)]
    if wrong:
        raise InvalidRequestError("; ".join(wrong))
    given.update({name: int(cell) for name, cell in numbers.items()})
    keys = [given.pop(name) for name in _KEYS if name in given]
    if len(keys) != 1:
        raise InvalidRequestError("there must be a slashtag or an id, and not both")
    change = Change(keys[0], slashtag=given.pop("new_slashtag", None), **given)
    change.call()  # raises InvalidRequestError
    return change


def _edited_change(
    cells: Mapping[str, str], links: Links, tag_names: Mapping[int, str] | None
) -> Change | None:
    """Return the change of a row of an edited listing, None where nothing differs."""
    key = cells["id"]
    found = links.find(int(key)) if _is_id(key) else []
    if not found:
        raise InvalidRequestError(f"the account has no link with the id {key!r}")
    given = edited_cells(cells, found[0], tag_names)
    if "slashtag" in given:
        given["new_slashtag"] = given.pop("slashtag")
    return completed(_change({"id": key, **given}), found[0]) if given else None


def _is_id(cell: str) -> bool:
    return cell.isascii() and cell.isdecimal() and len(cell) <= _MAX_DIGITS


class Links:
    """The links of an account, by slashtag and by id."""

    def __init__(self, urls: Iterable[ShortUrl]) -> None:
        self._by_key: dict[str | int, list[ShortUrl]] = {}
        for url in urls:
            self._by_key[url.id] = [url]
            self._by_key.setdefault(url.slashtag, []).append(url)

    def find(self, key: str | int) -> list[ShortUrl]:
        """Return the links with a slashtag or an id; on several domains there may be more than one."""
        return self._by_key.get(key, [])

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
    """Return the change by id, with the link's present destination and redirect code if it gives none."""
    code = url.redirect_code if url.redirect_code in REDIRECT_CODES else None
    return replace(
        change,
        key=url.id,
        destination=change.destination or url.destination or None,
        redirect_code=change.redirect_code or code,
    )


def differences(row: ChangeRow, url: ShortUrl) -> Iterator[Difference]:
    """Yield what a change alters of a link, or may alter."""
    for name in ("destination", "slashtag", "redirect_code", "password", "domain_id"):
        new = getattr(row.change, name)
        listed = name not in ("password", "domain_id")
        now = getattr(url, name) if listed else "?"
        if new is not None and new != now:
            shown = "***" if name == "password" else str(new)
            yield Difference(row.line, row.change.key, name, "" if now is None else str(now), shown)

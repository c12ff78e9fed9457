"""Changes read from a file, and checked as a whole."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct

from .. import Change, InvalidRequestError, ShortUrl
from .._internal import find_problems, many
from ..export import VOLATILE, Source, read_table
from ._links import READ_ONLY, Links, edited_cells, number

#: Columns of a file of changes.
COLUMNS = ("slashtag", "id", "destination", "new_slashtag", "redirect_code", "password", "domain_id")
_NUMBERS = {"id", "redirect_code", "domain_id", "tag_id"}


class ChangeRow(Struct, frozen=True):
    """One change and its line in the file, or its position among the changes, from 1.

    `edited` is a row of an edited listing as it is there; its change is what differs from the present link.
    """

    line: int
    change: Change
    edited: Change | None = None


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


class Sheet(Struct, frozen=True):
    """File of changes: the cells of its rows by column, and whether they are those of a listing.

    A table that `read_table` reads, with some of COLUMNS, one of them `slashtag` or `id`; or with columns of
    `slashtag urls list`. An empty cell omits its member.
    """

    where: str
    is_listing: bool
    rows: list[tuple[int, dict[str, str]]]

    def changes(
        self, links: Links, tag_names: Mapping[int, str], is_own: Callable[[ShortUrl], bool]
    ) -> list[ChangeRow]:
        """Return its changes, of a listing the rows that differ from their link, found by id.

        Raises ChangesError with all errors of the rows, such as a changed read-only column, or an
        `updated_at` that is not the link's, unless the link `is_own`: as own changes left it.
        """
        problems: list[Problem] = []
        rows: list[ChangeRow] = []
        for line, cells in self.rows:
            try:
                if not self.is_listing:
                    rows.append(ChangeRow(line, _change(cells)))
                elif given := edited_cells(cells, links, tag_names, is_own):
                    listed = {name: cell for name, cell in cells.items() if name in COLUMNS}
                    rows.append(ChangeRow(line, _by_id(given | {"id": cells["id"]}), _by_id(listed)))
            except InvalidRequestError as error:
                problems.append(Problem(line, str(error)))
        return checked(rows, self.where, problems)


def read_sheet(source: Source) -> Sheet:
    """Read the cells of a file; raises ChangesError for its columns, InvalidRequestError for other files."""
    where = "the input" if isinstance(source, io.BufferedIOBase) else str(source)
    header, rows = read_table(source)
    if not header:
        raise InvalidRequestError(f"{where} is empty: the columns are {', '.join(COLUMNS)}")
    is_listing = {"id", "slashtag"} <= {*header} and not {*READ_ONLY, *VOLATILE}.isdisjoint(header)
    known = {*COLUMNS, *(READ_ONLY + VOLATILE if is_listing else ())}
    wrong = [
        f"no column can be called {name!r}; there are {', '.join(COLUMNS)}" for name in {*header} - known
    ]
    if not {"slashtag", "id"} & {*header}:
        wrong.append("there must be a column slashtag or id")
    if wrong:
        raise ChangesError(where, [Problem(1, text) for text in wrong])
    for _, row in rows:
        # Data frames write numbers with a point in a column with gaps.
        row.update({name: row[name].removesuffix(".0") for name in _NUMBERS & row.keys()})
    return Sheet(where, is_listing, rows)


def checked(
    rows: list[ChangeRow], where: str = "the list of changes", problems: Iterable[Problem] = ()
) -> list[ChangeRow]:
    """Return the rows; raises ChangesError for their errors, and for problems found before."""
    found = [Problem(*each) for each in find_problems(((row.line, row.change) for row in rows), "line")]
    if found or problems:
        raise ChangesError(where, [*problems, *found])
    return rows


def _change(cells: Mapping[str, str]) -> Change:
    given: dict[str, Any] = {name: cell for name, cell in cells.items() if cell}
    given |= {name: number(name, given[name]) for name in given.keys() & _NUMBERS}
    keys = [given.pop(name) for name in ("slashtag", "id") if name in given]
    if len(keys) != 1:
        raise InvalidRequestError("there must be a slashtag or an id, and not both")
    return Change(keys[0], slashtag=given.pop("new_slashtag", None), **given)


def _by_id(cells: Mapping[str, str]) -> Change:
    """Return the change of the cells of a listing, where the slashtag is not what names the link."""
    return _change({"new_slashtag" if name == "slashtag" else name: cell for name, cell in cells.items()})

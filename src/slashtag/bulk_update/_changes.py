"""Rows of changes, from a file, which may be an edited listing, or as Changes; and their errors."""

import os
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from .. import Change, InvalidRequestError
from .._internal import MAX_SLASHTAG, Secret, check_change, many
from ..tables import VOLATILE, read_table

#: Columns of a file of changes, those of a listing that cannot be changed, and those that do not count.
COLUMNS = ("slashtag", "id", "destination", "new_slashtag", "redirect_code", "password", "domain_id")
READ_ONLY = ("short_url", "tag_id", "tag_name")
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

    _kind = "error"

    def __init__(self, where: str, problems: Iterable[Problem]) -> None:
        self.problems = sorted(problems)
        self.summary = f"{where} has {many(len(self.problems), self._kind)}; nothing was sent"
        super().__init__(f"{self.summary}: {'; '.join(map(str, self.problems[:3]))}")


class DoubtfulChangesError(ChangesError):
    """Values of changes that are more likely mistakes than meant, and were not confirmed."""

    _kind = "doubtful value"


class ChangeRow(Struct, frozen=True):
    """What a link is to have, by member of a Change, with the line in the file or the position, from 1.

    `listed` has the other cells of a row of an edited listing.
    """

    line: int
    key: str | int
    wanted: dict[str, Any]
    listed: dict[str, Any] = {}


def read_rows(path: str | os.PathLike[str]) -> list[ChangeRow]:
    """Read the changes of a file; raises ChangesError, and InvalidRequestError if it is no table.

    A file with columns of `slashtag urls list` is an edited listing: `id` names the link, and `slashtag` is
    what it is to have.
    """
    header, lines = read_table(path)
    if not header:
        raise InvalidRequestError(f"{path} is empty: the columns are {', '.join(COLUMNS)}")
    of_listings = {*READ_ONLY, *_IGNORED}
    is_listing = {"id", "slashtag"} <= {*header} and not of_listings.isdisjoint(header)
    wrong = [
        f"no column can be called {name!r}: delete it, or correct its name; there are {', '.join(COLUMNS)}"
        for name in {*header}.difference(COLUMNS, of_listings if is_listing else ())
    ]
    if not {"slashtag", "id"} & {*header}:
        wrong.append("there must be a column slashtag or id")
    if wrong:
        raise ChangesError(str(path), [Problem(1, text) for text in wrong])
    problems: list[Problem] = []
    rows: list[ChangeRow] = []
    for line, cells in lines:
        try:
            rows.append(_row(line, {name: cell for name, cell in cells.items() if cell}, is_listing))
        except InvalidRequestError as error:
            problems.append(Problem(line, str(error)))
    if problems:
        raise ChangesError(str(path), problems)
    return rows


def _row(line: int, given: dict[str, Any], is_listing: bool) -> ChangeRow:
    for name in given.keys() & _NUMBERS:
        # Data frames write numbers with a point in a column with gaps.
        number = given[name].removesuffix(".0")
        if not (number.isascii() and number.isdecimal() and len(number) <= MAX_SLASHTAG):
            raise InvalidRequestError(f"{name} must be a number, not {given[name]!r}")
        given[name] = int(number)
    if is_listing and "slashtag" in given:
        given.setdefault("new_slashtag", given.pop("slashtag"))
    keys = [given.pop(name) for name in ("slashtag", "id") if name in given]
    if len(keys) != 1:
        raise InvalidRequestError("there must be a slashtag or an id, and not both")
    wanted = {name: given.pop(name) for name in COLUMNS if name in given}
    if "new_slashtag" in wanted:
        wanted["slashtag"] = wanted.pop("new_slashtag")
    if "password" in wanted:
        wanted["password"] = Secret(wanted["password"])
    if not is_listing:
        # Of a listing, values need not be allowed that are those of the link.
        check_change(Change(1, **wanted))
    return ChangeRow(line, keys[0], wanted, given)


def row_of(line: int, change: Change) -> ChangeRow:
    """Return the row of a change."""
    given = {name: getattr(change, name) for name in change.__struct_fields__[1:]}
    return ChangeRow(line, change.key, {name: value for name, value in given.items() if value is not None})

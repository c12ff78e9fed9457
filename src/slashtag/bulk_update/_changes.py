"""Rows of changes, from a file, which may be an edited listing, or as Changes; and their errors."""

import os
from collections.abc import Iterable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from .. import Change, InvalidRequestError
from .._internal import check_change
from .._wording import many
from ..tables import VOLATILE, load_table

#: Columns of a file of changes, and those that only a listing has.
COLUMNS = ("slashtag", "id", "destination", "new_slashtag", "redirect_code", "password", "domain_id")
_OF_LISTINGS = {"short_url", "tag_id", "tag_name", "created_at", *VOLATILE}
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

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = sorted(problems)
        found = many(len(self.problems), self._kind)
        super().__init__(f"{found}; nothing was sent: {'; '.join(map(str, self.problems[:3]))}")


class DoubtfulChangesError(ChangesError):
    """Values of changes that are more likely mistakes than meant, and were not confirmed."""

    _kind = "doubtful value"


class ChangeRow(Struct, frozen=True):
    """Change of a link, with its line in the file, or its position, from 1.

    `listed` has the other cells of a row of an edited listing.
    """

    line: int
    change: Change
    listed: dict[str, Any] = {}


def read_rows(path: str | os.PathLike[str]) -> list[ChangeRow]:
    """Read the changes of a file; raises ChangesError, and InvalidRequestError if it is no table.

    A file with columns of `slashtag urls list` is an edited listing: `id` names the link, and `slashtag` is
    what it is to have.
    """
    table = load_table(path)
    header = table.columns
    is_listing = {"id", "slashtag"} <= {*header} and not _OF_LISTINGS.isdisjoint(header)
    wrong = {*header}.difference(COLUMNS, _OF_LISTINGS if is_listing else ())
    if wrong or {"slashtag", "id"}.isdisjoint(header):
        told = f"not {', '.join(sorted(wrong) or header or ['an empty file'])}"
        raise ChangesError(
            [Problem(1, f"columns are slashtag or id, and any of {', '.join(COLUMNS[2:])}, {told}")]
        )
    problems = list[Problem]()
    rows = list[ChangeRow]()
    for line, cells in table.rows():
        try:
            rows.append(_row(line, {name: cell for name, cell in cells.items() if cell}, is_listing))
        except InvalidRequestError as error:
            problems.append(Problem(line, str(error)))
    if problems:
        raise ChangesError(problems)
    return rows


def _row(line: int, given: dict[str, Any], is_listing: bool) -> ChangeRow:
    for name in given.keys() & _NUMBERS:
        if not given[name].isdecimal():
            raise InvalidRequestError(f"{name} must be a number, not {given[name]!r}")
        given[name] = int(given[name])
    if is_listing and "slashtag" in given:
        given.setdefault("new_slashtag", given.pop("slashtag"))
    keys = [given.pop(name) for name in ("slashtag", "id") if name in given]
    if len(keys) != 1:
        raise InvalidRequestError("there must be a slashtag or an id; both only in a listing, with short_url")
    if "new_slashtag" in given:
        given["slashtag"] = given.pop("new_slashtag")
    members = {name: given.pop(name) for name in Change.__struct_fields__ if name in given}
    change = Change(keys[0], **members)
    if not is_listing:
        # Of a listing, values need not be allowed that are those of the link.
        check_change(replace(change, key=1))
    return ChangeRow(line, change, given)

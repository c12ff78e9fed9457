"""Comparison of changes, and of the rows of an edited listing, with the links of the account."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from .. import Change, InvalidRequestError, ShortUrl
from .._internal import find_problems
from ..export import VOLATILE

#: Columns of a listing that cannot be changed.
READ_ONLY = ("short_url", "tag_id", "tag_name", "created_at")


class Difference(Struct, frozen=True):
    """Member of a link that a change alters, or may alter if `now` is "?", as the listing lacks it."""

    line: int
    key: str | int
    member: str
    now: str
    new: str


class Links:
    """The links of an account, by slashtag and by id."""

    def __init__(self, urls: Iterable[ShortUrl] = ()) -> None:
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


def completed(change: Change, url: ShortUrl) -> Change:
    """Return the change with the link's present destination and redirect code if it gives none.

    Not with values that cannot be sent.
    """
    for name in ("destination", "redirect_code"):
        whole = replace(change, **{name: getattr(change, name) or getattr(url, name)})
        if not any(find_problems([(0, whole)], "line")):
            change = whole
    return change


def visible(url: ShortUrl, change: Change | None = None) -> list[object]:
    """Return what a listing shows of the values that an update can alter, after a change if one is given."""
    names = ("destination", "slashtag", "redirect_code")
    return [getattr(change, name, None) or getattr(url, name) for name in names]


def differences(line: int, change: Change, url: ShortUrl) -> Iterator[Difference]:
    """Yield what a change alters of a link, or may alter."""
    listed = url.to_dict()
    for name in change.__struct_fields__[1:]:
        new, now = getattr(change, name), listed.get(name, "?")
        if new is not None and (name not in listed or new != now):
            shown = "***" if name == "password" else str(new)
            yield Difference(line, change.key, name, "" if now is None else str(now), shown)


def number(name: str, cell: str) -> int:
    """Return a cell as a whole number; every one of so many digits fits into 64 bits."""
    if not (cell.isascii() and cell.isdecimal() and len(cell) <= 18):
        raise InvalidRequestError(f"{name} must be a number, not {cell!r}")
    return int(cell)


def edited_cells(
    cells: Mapping[str, str], links: Links, tag_names: Mapping[int, str], is_own: Callable[[ShortUrl], bool]
) -> dict[str, str]:
    """Return the cells to send: those that differ from the link, and those that a listing does not have.

    Empty cells do not count. Raises InvalidRequestError where a read-only column differs, or where the link
    was, or may have been, updated since it was listed; not where it `is_own`, as own changes left it.
    """
    url = links.find(number("id", cells["id"]))
    listed_at = cells.get("updated_at", "")
    is_old = bool(listed_at) and _instant(listed_at) != (url.updated_at or "")
    present = {name: "" if value is None else str(value) for name, value in url.to_dict().items()}
    present["tag_name"] = tag_names.get(url.tag_id or 0, "")
    given: dict[str, str] = {}
    wrong: list[str] = []
    for name, cell in cells.items():
        now = present.get(name, "")
        if not cell or cell == now or name in ("id", *VOLATILE):
            continue
        if name not in READ_ONLY:
            given[name] = cell
        # The short URL of an updated link may be another one, and times are written in many ways.
        elif not (name == "short_url" and is_old) and not (
            name == "created_at" and _instant(cell) == url.created_at
        ):
            wrong.append(f"{name} cannot be changed; it is {now!r}")
    changed = ", ".join(name for name in given if name in present)
    if is_old and changed and not is_own(url):
        why = (
            f"updated_at is no time as listed: {listed_at!r}"
            if _instant(listed_at) is None
            else f"the link was updated since it was listed, and {changed} may be of somebody else"
        )
        wrong.append(f"{why}: list it again, or leave out the column updated_at to send the row all the same")
    if wrong:
        raise InvalidRequestError("; ".join(wrong))
    return given


def _instant(text: str) -> datetime | None:
    with suppress(ValueError):
        return datetime.fromisoformat(text).replace(tzinfo=None, microsecond=0)
    return None

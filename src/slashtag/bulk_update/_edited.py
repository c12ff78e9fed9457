"""Comparison of a row of an edited listing with its link."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime

from .. import InvalidRequestError, ShortUrl

#: Columns of a listing that cannot be changed; `hits` and `updated_at` change by themselves.
READ_ONLY = ("short_url", "tag_id", "tag_name", "created_at")
VOLATILE = ("hits", "updated_at")
_CHANGEABLE = ("destination", "redirect_code", "slashtag")


def is_listing(header: Sequence[str]) -> bool:
    """Return whether a header is that of `slashtag urls list`, with some columns left out perhaps."""
    return {"id", "slashtag"} <= set(header) and not {*READ_ONLY, *VOLATILE}.isdisjoint(header)


def edited_cells(
    cells: Mapping[str, str], url: ShortUrl, tag_names: Mapping[int, str] | None
) -> dict[str, str]:
    """Return the cells to send: those that differ from the link, and those that a listing does not have.

    Empty cells do not count. Raises InvalidRequestError where a read-only column differs, or where the link
    was updated since it was listed.
    """
    listed_at = _instant(cells.get("updated_at", ""))
    updated = listed_at is not None and listed_at != url.updated_at
    present = {
        "slashtag": url.slashtag,
        "destination": url.destination or "",
        "redirect_code": "" if url.redirect_code is None else str(url.redirect_code),
        "short_url": url.short_url or "",
        "tag_id": "" if url.tag_id is None else str(url.tag_id),
        "created_at": "" if url.created_at is None else url.created_at.isoformat(),
    }
    if tag_names is not None:
        present["tag_name"] = tag_names.get(url.tag_id or 0, "")
    differing: list[str] = []
    for name, now in present.items():
        cell = cells.get(name, "")
        if name == "short_url" and updated:
            # Its last part follows the slashtag, which an update may have changed.
            cell, now = cell.rpartition("/")[0], now.rpartition("/")[0]
        if cell and cell != now and not (name == "created_at" and _instant(cell) == url.created_at):
            differing.append(name)
    wrong = [f"{name} cannot be changed; it is {present[name]!r}" for name in READ_ONLY if name in differing]
    changed = [name for name in differing if name in _CHANGEABLE]
    if changed and updated:
        wrong.append(
            f"the link was updated since it was listed, and {', '.join(changed)} may be of somebody else: "
            "list it again, or leave out the column updated_at to send the row all the same"
        )
    if wrong:
        raise InvalidRequestError("; ".join(wrong))
    ignored = {"id", *READ_ONLY, *VOLATILE, *_CHANGEABLE}
    return {name: cell for name, cell in cells.items() if cell and (name in changed or name not in ignored)}


def _instant(text: str) -> datetime | None:
    with suppress(ValueError):
        return datetime.fromisoformat(text).replace(tzinfo=None, microsecond=0)
    return None

"""Changes from a listing of links that was edited: the cells that differ from the links as they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime

from .. import ShortUrl

#: Columns of a listing that cannot be changed; `hits` and `updated_at` change by themselves.
READ_ONLY = ("short_url", "tag_id", "tag_name", "created_at")
VOLATILE = ("hits", "updated_at")


def is_listing(header: Sequence[str]) -> bool:
    """Return whether a header is that of `slashtag urls list`, with some columns left out perhaps."""
    return {"id", "slashtag"} <= set(header) and not {*READ_ONLY, *VOLATILE}.isdisjoint(header)


def edits(
    cells: Mapping[str, str], url: ShortUrl, tag_names: Mapping[int, str] | None
) -> Iterator[tuple[str, str]]:
    """Yield the columns whose cell differs from the link, with the present value; empty cells do not count.

    The last part of a short URL follows its slashtag, and may be the one before an update.
    """
    present = {
        "slashtag": url.slashtag,
        "destination": url.destination or "",
        "redirect_code": "" if url.redirect_code is None else str(url.redirect_code),
        "short_url": url.short_url or "",
        "tag_id": "" if url.tag_id is None else str(url.tag_id),
        "tag_name": (tag_names or {}).get(url.tag_id or 0, ""),
        "created_at": "" if url.created_at is None else url.created_at.isoformat(),
    }
    for name, now in present.items():
        cell = cells.get(name, "")
        if name == "tag_name" and tag_names is None:
            continue
        if name == "short_url" and is_updated(cells, url):
            cell, now = cell.rpartition("/")[0], now.rpartition("/")[0]
        if cell and cell != now and not (name == "created_at" and _instant(cell) == url.created_at):
            yield name, now


def is_updated(cells: Mapping[str, str], url: ShortUrl) -> bool:
    """Return whether a link was updated since it was listed, as far as `updated_at` tells."""
    listed = _instant(cells.get("updated_at", ""))
    return listed is not None and listed != url.updated_at


def _instant(text: str) -> datetime | None:
    with suppress(ValueError):
        return datetime.fromisoformat(text).replace(tzinfo=None, microsecond=0)
    return None


def problems_of(differing: Iterable[tuple[str, str]], *, updated: bool) -> Iterator[str]:
    """Yield why the edited cells of a link cannot be sent."""
    changed = dict(differing)
    for name in READ_ONLY:
        if name in changed:
            yield f"{name} cannot be changed; it is {changed.pop(name)!r}"
    if changed and updated:
        yield (
            f"the link was updated since it was listed, and {', '.join(changed)} may be of somebody else: "
            "list it again, or leave out the column updated_at to send the row all the same"
        )

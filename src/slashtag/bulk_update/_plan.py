"""What is to become of each row: one comparison of three values of its link.

base      what the link was when a run first saw it, or saw the row: recorded, durable, before it is sent
wanted    what the row gives
present   what a listing shows now

present, in what the row gives                          the row is
wanted, and what no listing shows was done before       "unchanged"
wanted otherwise; base; as the last row left it         sent
else                                                    "changed": never sent

A link that no run has seen is as it was, unless its row was listed before the link was last updated.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from .. import Change, InvalidRequestError, ShortUrl
from .._internal import check_change
from ._changes import READ_ONLY, ChangeRow, Problem
from ._links import LinkIndex, address_of
from ._outcome_file import Known, OutcomeFile, RowOutcome, Seen, Status

#: Members of a change that a listing shows.
VISIBLE = ("destination", "slashtag", "redirect_code")
Decision = Literal["unchanged", "send", "changed"]
_CHANGED = (
    "somebody else may have changed the link since: list the links again, or give the row in a new file"
)


class Difference(Struct, frozen=True):
    """Member of a link that a change alters, or may alter if `now` is "?", as the listing lacks it.

    For a row that is not sent, as it names no link, or several, or as somebody else has changed the link,
    `member` is empty and `now` says so; without a link `slashtag` is what the row gives.
    """

    line: int
    id: int | None
    slashtag: str | None
    member: str
    now: str
    new: str


class PlannedRow(Struct, frozen=True):
    """Row with its link as it is, None if there is not just one, and what is to become of it.

    `change` is None if it is not sent. It is by id, and gives the destination and the redirect code too: it
    is undocumented whether the service resets what is left out. `seen` is what is to be recorded before.
    """

    row: ChangeRow
    url: ShortUrl | None
    decision: Decision | Literal["failed"]
    differences: tuple[Difference, ...] = ()
    change: Change | None = None
    seen: Seen | None = None

    def outcome(self, status: Status, error: str = "", rows_updated: int | None = None) -> RowOutcome:
        """Return the outcome of the row."""
        id, slashtag = (self.url.id, self.url.slashtag) if self.url else (None, None)
        return RowOutcome(self.row.line, self.row.key, status, rows_updated, error or None, id, slashtag)


def decide(
    wanted: Mapping[str, Any], hidden: str, present: Mapping[str, Any], known: Known | None
) -> Decision:
    """Return what is to become of a row; `wanted` has what a listing shows, `hidden` the hash of the rest."""

    def is_as(state: Mapping[str, Any]) -> bool:
        return all(present[name] == state[name] for name in wanted)

    if is_as(wanted):
        is_done = known is not None and known.is_done and known.last.hidden == hidden
        return "unchanged" if is_done or not hidden else "send"
    if known is None or any(map(is_as, (known.last.after, known.last.base, known.last.base | known.undo))):
        return "send"
    return "changed"


def plan(
    rows: Iterable[ChangeRow], links: LinkIndex, tags: Mapping[int, str], file: OutcomeFile, *, or_id: bool
) -> tuple[list[PlannedRow], list[Problem]]:
    """Return what is to become of the rows, and the errors of those that must not be sent."""
    planned: list[PlannedRow] = []
    problems: list[Problem] = []
    line_of: dict[int, int] = {}
    for row in rows:
        try:
            id = file.ids.get(row.key)
            url = links.find(id if id in links.by_name else row.key, or_id=or_id)
        except InvalidRequestError as error:
            told = Difference(row.line, None, str(row.key), "", str(error), "")
            planned.append(PlannedRow(row, None, "failed", (told,)))
            continue
        try:
            if line_of.setdefault(url.id, row.line) != row.line:
                raise InvalidRequestError(f"{row.key!r} is the link of line {line_of[url.id]}")
            _check_read_only(row, url, tags, is_known=url.id in file.known)
            planned.append(_compare(row, url, file))
            _check_slashtag(planned[-1], url, links)
        except InvalidRequestError as error:
            problems.append(Problem(row.line, str(error)))
    return planned, problems


def _check_read_only(row: ChangeRow, url: ShortUrl, tags: Mapping[int, str], *, is_known: bool) -> None:
    """Raise InvalidRequestError for a cell of a listing that was edited and cannot be changed."""
    present = url.to_dict() | {"tag_name": tags.get(url.tag_id or 0)}
    for name in READ_ONLY:
        # The short URL of a link that is renamed is another one.
        is_renamed = name == "short_url" and (is_known or row.wanted.get("slashtag") != url.slashtag)
        if row.listed.get(name, present[name]) != present[name] and not is_renamed:
            advice = "; the service's dashboard can do that" * name.startswith("tag")
            raise InvalidRequestError(f"{name} cannot be changed{advice}; it is {present[name]!r}")


def _check_slashtag(row: PlannedRow, url: ShortUrl, links: LinkIndex) -> None:
    """Raise InvalidRequestError for a slashtag that another link of the domain has."""
    if row.change is not None and row.change.slashtag and row.change.domain_id is None:
        place = address_of(url, row.change.slashtag)
        for other in links.by_name.get(place, ()):
            if other is not url:
                advice = "rename that in a run of its own first, for a swap to a third slashtag"
                raise InvalidRequestError(f"{place} is another link, {other.id}; {advice}")


def _compare(row: ChangeRow, url: ShortUrl, file: OutcomeFile) -> PlannedRow:
    """Compare a row with its link; raises InvalidRequestError for a value that is not allowed."""
    present = {name: getattr(url, name) for name in VISIBLE}
    wanted = {name: value for name, value in row.wanted.items() if name in VISIBLE}
    rest = {name: value for name, value in row.wanted.items() if name not in VISIBLE}
    hidden, known = file.digest(rest), file.known.get(url.id)
    decision = decide(wanted, hidden, present, known)
    listed_at = row.listed.get("updated_at", "").replace("T", " ")[:19]
    if decision == "send" and known is None and listed_at not in ("", str(url.updated_at)):
        decision = "changed"
    if decision == "changed":
        told = Difference(row.line, url.id, url.slashtag, "", _CHANGED, "")
        return PlannedRow(row, url, decision, (told,))
    seen: Seen | None = Seen(id=url.id, key=row.key, base=present, after=present | wanted, hidden=hidden)
    if known and (
        decision == "unchanged" or (known.last.after, known.last.hidden) == (present | wanted, hidden)
    ):
        seen = None  # what the link was before stays what it was
    if decision == "unchanged":
        return PlannedRow(row, url, decision, seen=seen)
    altered = {name: value for name, value in wanted.items() if value != present[name]}
    change = Change(url.id, **altered, **rest)
    check_change(change)
    shown = {name: (str(present[name] or ""), str(value)) for name, value in altered.items()}
    shown |= {name: ("?", "***" if name == "password" else str(value)) for name, value in rest.items()}
    differences = (Difference(row.line, url.id, url.slashtag, name, *texts) for name, texts in shown.items())
    for name in ("destination", "redirect_code"):
        with suppress(InvalidRequestError):  # of a present value that cannot be sent
            kept = replace(change, **{name: wanted.get(name, present[name])})
            check_change(kept)
            change = kept
    return PlannedRow(row, url, decision, tuple(differences), change, seen)

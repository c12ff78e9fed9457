"""What is to become of each row: one comparison of three values of its link.

base      what runs found of the link, and left of it: recorded, durable, before anything is sent
wanted    what the row gives
present   what a listing shows now

present, in what the row gives                          the row is
wanted, and what no listing shows was done before       "unchanged"
wanted otherwise, or base                               sent
else                                                    "changed": never sent

A link that no run has seen is as it was, unless its row was listed before the link was last updated. So it is
if its row was listed again since the runs that have seen it.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import unquote

from msgspec import Struct
from msgspec.structs import asdict, replace

from .. import Change, InvalidRequestError, ShortUrl
from .._internal import check_change
from ._changes import ChangeRow, ChangesError, Problem
from ._outcome_file import OutcomeFile, RowOutcome, Seen

#: Members of a change that a listing shows.
VISIBLE = ("destination", "slashtag", "redirect_code")
_CHANGED = (
    "changed since, another link has its name now, or short_url or updated_at is not as listed: list again, "
    "or use a new file without them"
)


class Difference(Struct, frozen=True):
    """Member of a link that a change alters, or may alter if `now` is "?", as the listing lacks it."""

    line: int
    id: int
    slashtag: str | None
    member: str
    now: str
    new: str


def _split(url: str) -> tuple[str, str, str]:
    """Return the host of a URL, a slash, and what follows it."""
    return url.rpartition("://")[2].partition("/")


def address(url: str) -> str:
    """Return the host and path that a URL leads to, by which short URLs are compared; "" without a path."""
    host, _, path = _split(url)
    path = path.partition("#")[0].partition("?")[0].rstrip("/")
    return f"{host.lower()}/{unquote(path)}" if path else ""


def address_of(url: ShortUrl, slashtag: str | None = None) -> str:
    """Return the address of a link, as it is or with another slashtag."""
    # Not by its own `address`: a slashtag may begin with # or ?.
    return f"{_split(url.short_url or '')[0].lower()}/{slashtag or url.slashtag}"


class LinkIndex:
    """The links of an account, by id (after a #), slashtag, and address of their short URL."""

    def __init__(self, urls: Sequence[ShortUrl]) -> None:
        self.by_name = dict[str, list[ShortUrl]]()
        self.urls = urls
        for url in urls:
            for name in {f"#{url.id}", url.slashtag or "", url.short_url or "", address_of(url)}:
                self.by_name.setdefault(name, []).append(url)

    def find(self, key: str | int) -> ShortUrl:
        """Return the link with an id (int), or with a slashtag or short URL (str).

        Raises InvalidRequestError if there is not just one.
        """
        names = {f"#{key}"} if isinstance(key, int) else {key, address(key)}
        found = {url.id: url for name in names for url in self.by_name.get(name, ())}
        if len(found) != 1:
            raise InvalidRequestError(
                f"several links, with the ids {[*found]}: give the id or the short URL"
                if found
                else "no such link"
            )
        (url,) = found.values()
        # The path of an update cannot tell an id from a slashtag.
        if self.by_name.get(str(url.id), [url]) != [url]:
            raise InvalidRequestError(f"its id, {url.id}, is also the slashtag of another link")
        return url


class PlannedRow(Struct, frozen=True):
    """Row that is to be sent, its outcome without an answer, and the short URL of its link once it is done.

    `change` is by id, and gives the destination and the redirect code too: it is undocumented whether the
    service resets what is left out.
    """

    change: Change
    outcome: RowOutcome
    place: str


class Preview(Struct):
    """What is to become of all rows.

    `sent` are those that are sent, `differences` what they alter; `left` has the outcomes of rows that cannot
    be sent, `unchanged` is the number of those whose link is as they want it. `doubts` have to be confirmed.
    `seen` has links to be recorded.
    """

    sent: list[PlannedRow] = []
    differences: list[Difference] = []
    left: list[RowOutcome] = []
    unchanged: int = 0
    doubts: list[Problem] = []
    seen: list[Seen] = []


def decide(
    wanted: Mapping[str, Any], hidden: str, present: Mapping[str, Any], history: Sequence[Seen], done: str
) -> str:
    """Return what is to become of a row: "unchanged", "send" or "changed".

    `wanted` has what a listing shows, `hidden` is the hash of the rest, `done` that of what was done before.
    """

    def is_as(state: Mapping[str, Any]) -> bool:
        return all(present[name] == state[name] for name in wanted)

    if is_as(wanted):
        return "unchanged" if hidden in ("", done) else "send"
    is_known = any(is_as(state) for seen in history for state in (seen.base, seen.after))
    return "send" if is_known or not history else "changed"


def plan(rows: Iterable[ChangeRow], links: LinkIndex, tags: Mapping[int, str], file: OutcomeFile) -> Preview:
    """Return what is to become of the rows, without doubts; raises ChangesError."""
    plan = Preview()
    problems = list[Problem]()
    line_of = dict[int, int]()
    for row in rows:
        key = row.change.key
        try:
            # A link may have been renamed since a run first saw it.
            url = links.find(file.ids.get(key, key))
        except InvalidRequestError as error:
            plan.left.append(RowOutcome(row.line, key, "failed", error=str(error)))
            continue
        try:
            if line_of.setdefault(url.id, row.line) != row.line:
                raise InvalidRequestError(f"{key!r} is the link of line {line_of[url.id]}")
            # Cells of a listing that were edited, and cannot be changed.
            for name, now in (("tag_id", url.tag_id), ("tag_name", tags.get(url.tag_id or 0))):
                if row.listed.get(name, now) != now:
                    raise InvalidRequestError(f"{name} cannot be changed here; it is {now!r}")
            _compare(row, url, links, file, plan)
        except InvalidRequestError as error:
            problems.append(Problem(row.line, str(error)))
    if problems:
        raise ChangesError(problems)
    return plan


def _compare(row: ChangeRow, url: ShortUrl, links: LinkIndex, file: OutcomeFile, plan: Preview) -> None:
    """Plan a row by its link; raises InvalidRequestError for a value that is not allowed."""
    given = {name: value for name, value in asdict(row.change).items() if value is not None}
    key = given.pop("key")
    present = {name: getattr(url, name) for name in VISIBLE}
    wanted = {name: given[name] for name in VISIBLE if name in given}
    hidden = file.digest({name: given[name] for name in given.keys() - wanted.keys()})
    listed_at = row.listed.get("updated_at", "").replace("T", " ")[:19]
    # A row that was listed again is about the link as it was then.
    history = [seen for seen in file.history.get(url.id, ()) if listed_at in ("", seen.listed_at)]
    decision = decide(wanted, hidden, present, history, file.done.get(url.id, ""))
    place = address_of(url, given.get("slashtag"))
    short_url = row.listed.get("short_url", url.short_url)
    is_other = short_url != url.short_url and address(f"{short_url}") != place
    is_other |= decision == "send" and listed_at not in ("", str(url.updated_at))
    # A link that was renamed may have left its slashtag to another.
    named = links.by_name.get(address(f"{key}") or key, [url])
    if (is_other and not history) or (decision == "send" and named != [url]):
        decision = "changed"
    outcome = RowOutcome(row.line, key, "changed", None, _CHANGED, url.id, url.slashtag)
    if decision == "changed":
        plan.left.append(outcome)
        return
    if decision == "send" or not history:
        plan.seen.append(
            Seen(
                id=url.id,
                key=key,
                base=present,
                after=present | wanted,
                hidden=hidden,
                listed_at=listed_at,
            )
        )
    if decision == "unchanged":
        plan.unchanged += 1
        return
    altered = {name: value for name, value in given.items() if value != present.get(name)}
    change = Change(url.id, **altered)
    check_change(change)
    if change.domain_id is None and links.by_name.setdefault(place, [url]) != [url]:
        raise InvalidRequestError(
            f"{place} is or becomes another link: rename it in an earlier run, to a third slashtag for a swap"
        )
    plan.differences += [
        Difference(
            row.line,
            url.id,
            url.slashtag,
            name,
            str(present.get(name, "?") or ""),
            "***" if name == "password" else str(value),
        )
        for name, value in altered.items()
    ]
    for name in ("destination", "redirect_code"):
        with suppress(InvalidRequestError):  # of a present value that cannot be sent
            kept = replace(change, **{name: (present | given)[name]})
            check_change(kept)
            change = kept
    plan.sent.append(PlannedRow(change, replace(outcome, status="unknown"), place))

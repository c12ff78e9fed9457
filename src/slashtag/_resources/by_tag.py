"""Statistics of all tags, and of the links without one, so that they add up to those of the account.

The service counts a tag by its links, and has no selector for links without a tag: their slashtags are
requested. A slashtag that links with and without a tag have, on different domains, is counted for both
together. Those without a tag have of it what the tags leave:

    what tags have of such slashtags = all tags - the slashtags that only links with a tag have
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from msgspec.structs import replace

from .._core.batches import check_slashtag
from .._core.checks import Progress
from .._core.queries import Query
from .._errors import InvalidRequestError
from .._fanout import Results
from .._records import ShortUrl
from .._summed_statistics import GeoStats, PeriodStats, Statistics
from .run_state import OnError

R = TypeVar("R", bound=Statistics)
Counts = dict[Any, int]
log = logging.getLogger("slashtag")


class StatsByTag(dict["str | None", R]):
    """Statistics by the name of a tag; None has those of links without a tag.

    They add up to those of the account. A slashtag that links with and without a tag share is counted once,
    and named in `shared` of the latter.
    """

    @property
    def total(self) -> R:
        """The sum."""
        return type(self[None]).merge(self.values())


async def collect_by_tag(
    collect: Callable[..., Awaitable[R]],
    collect_each: Callable[..., Results[tuple[str, R]]],
    query: Query[R],
    links: Iterable[ShortUrl],
    names: dict[int, str],
    *,
    progress: Progress | None,
    on_error: OnError[R] | None,
    **options: Any,
) -> StatsByTag[R]:
    """Return the statistics of tags, given the names of all by id, and of the links without any."""
    of_tag: dict[str, list[ShortUrl]] = {name: [] for name in names.values()}
    by_slashtag: dict[str, list[ShortUrl]] = {}
    uncountable: list[ShortUrl] = []
    for link in links:
        name = names.get(link.tag_id or 0)
        if name is not None:
            of_tag[name].append(link)
        try:
            by_slashtag.setdefault(check_slashtag(link), []).append(link)
        except InvalidRequestError:
            uncountable.append(link)
    if unknown := {link.tag_id for link in links} - {None, *names}:
        log.warning("links of %d tag(s) whose names cannot be read count as links without one", len(unknown))
    # By whether links have a tag, or some of them.
    apart: dict[bool | None, list[ShortUrl]] = {True: [], False: [], None: []}
    for same in by_slashtag.values():
        are_tagged = {link.tag_id in names for link in same}
        apart[are_tagged.pop() if len(are_tagged) == 1 else None] += same
    tagged, untagged, mixed = apart[True], apart[False], apart[None]

    async def count(keys: list[ShortUrl]) -> R:
        return await collect(query, keys=keys, on_error=on_error, **options)

    # In this order clicks that arrive meanwhile are not taken for more than there are.
    of_tagged = await count(tagged) if mixed else None
    each = collect_each(query, tags=of_tag, on_error=on_error, progress=progress, **options)
    found = await each.to_dict()
    rest = await count([*untagged, *(link for link in uncountable if link.tag_id not in names)])
    kind = type(rest)
    by_tag: StatsByTag[R] = StatsByTag({name: found.get(name) or kind(missing=1) for name in of_tag})
    if of_tagged is not None:
        of_mixed, of_tags = await count(mixed), kind.merge(by_tag.values())
        left = _left(of_mixed, of_mixed + of_tagged, of_tags)
        known = not any(link.tag_id in names for link in uncountable)
        rest += left if known else replace(left, reconciles=False)
    by_tag[None] = rest
    return by_tag


def _left(whole: R, total: R, taken: R) -> R:
    """Return `total` less what is taken, of every number none and at most the `whole`.

    A number outside does not reconcile.
    """
    fits = True

    def number(most: int, in_all: int, less: int) -> int:
        nonlocal fits
        left = in_all - less
        fits = fits and 0 <= left <= most
        return min(most, max(0, left))

    def left(most: Counts, in_all: Counts, less: Counts) -> Counts:
        return {label: number(n, in_all.get(label, 0), less.get(label, 0)) for label, n in most.items()}

    def of(name: str) -> Any:
        most, in_all, less = (getattr(each, name) for each in (whole, total, taken))
        if name == "clicks_breakdown":
            return {year: left(months, in_all[year], less.get(year, {})) for year, months in most.items()}
        return left(most, in_all, less) if name in whole.DIMENSIONS else number(most, in_all, less)

    numbers = {"total_clicks", "clicks_total", "clicks_breakdown"} & {*whole.__struct_fields__}
    members = {name: of(name) for name in {*whole.DIMENSIONS, *numbers}}
    result = replace(whole, **members, missing=total.missing)
    if isinstance(result, PeriodStats):
        unique = min(result.clicks_unique, result.clicks_total)
        exact = {"clicks_unique": unique, "clicks_repeated": result.clicks_total - unique}
        result = replace(result, **exact, unique_is_exact=False)
    if isinstance(result, GeoStats):
        result = replace(result, places_are_exact=False)
    reconciles = fits and total.reconciles and taken.reconciles and not taken.missing
    return replace(result, reconciles=reconciles)

"""Statistics of all tags, and of the links without one, so that they add up to those of the account.

The service counts a tag by its links, and has no selector for links without a tag: their slashtags are
requested. A slashtag that links with and without a tag have, on different domains, is counted for both
together. Those without a tag have of it what the tags leave:

    what tags have of such slashtags = all tags - the slashtags that only links with a tag have
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from msgspec.structs import replace

from .._core.batches import check_slashtag
from .._errors import InvalidRequestError
from .._fanout import Results
from .._records import ShortUrl
from .._summed_statistics import OTHER, GeoStats, PeriodStats, Statistics

R = TypeVar("R", bound=Statistics)


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
    links: Iterable[ShortUrl],
    names: dict[int, str],
) -> StatsByTag[R]:
    """Return the statistics of tags, given the names of all by id, and of the links without any.

    `collect` and `collect_each` take `keys` and `tags`, and know the query.
    """
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
    # By whether links have a tag, or some of them.
    apart: dict[bool | None, list[ShortUrl]] = {True: [], False: [], None: []}
    for same in by_slashtag.values():
        are_tagged = {link.tag_id in names for link in same}
        apart[are_tagged.pop() if len(are_tagged) == 1 else None] += same
    tagged, untagged, mixed = apart[True], apart[False], apart[None]
    # In this order clicks that arrive meanwhile are not taken for more than there are.
    of_tagged = await collect(keys=tagged) if mixed else None
    found = await collect_each(tags=of_tag).to_dict()
    rest = await collect(keys=[*untagged, *(link for link in uncountable if link.tag_id not in names)])
    kind = type(rest)
    by_tag: StatsByTag[R] = StatsByTag({name: found.get(name) or kind(missing=1) for name in of_tag})
    if of_tagged is not None:
        of_mixed, of_tags = await collect(keys=mixed), kind.merge(by_tag.values())
        left = _left(of_mixed, of_mixed + of_tagged, of_tags)
        known = not any(link.tag_id in names for link in uncountable)
        rest += left if known else replace(left, reconciles=False)
    by_tag[None] = rest
    return by_tag


def _left(whole: R, total: R, taken: R) -> R:
    """Return `total` less what is taken, of every number none and at most the `whole`.

    A number outside does not reconcile.
    """
    if isinstance(whole, GeoStats):
        # Named places are lower bounds, so that nothing is known of what one of them has left.
        whole, total, taken = (
            replace(each, **{name: {OTHER: each.total} for name in each.SUMS})
            for each in (whole, total, taken)
        )
    fits = total.reconciles and taken.reconciles and not taken.missing

    def left(most: Any, in_all: Any, less: Any) -> Any:
        nonlocal fits
        if not isinstance(most, int):  # counts by label
            return {label: left(n, in_all[label], less.get(label, type(n)())) for label, n in most.items()}
        fits = fits and 0 <= in_all - less <= most
        return min(most, max(0, in_all - less))

    names = {"total_clicks", "clicks_total", "clicks_breakdown", *whole.DIMENSIONS}
    members: dict[str, Any] = {
        name: left(getattr(whole, name), getattr(total, name), getattr(taken, name))
        for name in names & {*whole.__struct_fields__}
    }
    if isinstance(whole, PeriodStats):
        unique = min(whole.clicks_unique, members["clicks_total"])
        members |= {"clicks_unique": unique, "clicks_repeated": members["clicks_total"] - unique}
        members["unique_is_exact"] = False
    if isinstance(whole, GeoStats):
        members["places_are_exact"] = False
    return replace(whole, **members, missing=total.missing, reconciles=fits)

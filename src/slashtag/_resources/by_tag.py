"""Statistics of all tags, and of the links without one, so that they add up to those of the account.

The service counts a tag by its links, and has no selector for links without a tag: their slashtags are
requested. A slashtag that links with and without a tag share, on different domains, is counted for both
together. Of such slashtags, links without a tag have what the tags leave:

    the slashtags that both have + those that only links with a tag have - all tags

Tags are counted before and after. If that differs the rest does not reconcile: clicks that arrived meanwhile
are in some of these counts only.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from msgspec.structs import replace

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
    names: dict[int, str | None],
) -> StatsByTag[R]:
    """Return the statistics of tags, given the names of all by id, and of the links without any.

    A tag without a name cannot be requested: its links are among the latter, which then do not reconcile.
    `collect` and `collect_each` take `keys` and `tags`, and know the query.
    """
    of_tag: dict[str, list[ShortUrl]] = {name: [] for name in names.values() if name}
    by_slashtag = dict[str | None, list[ShortUrl]]()
    for link in links:
        name = names.get(link.tag_id or 0)
        if name:
            of_tag[name].append(link)
        by_slashtag.setdefault(link.slashtag, []).append(link)
    tagged = list[ShortUrl]()
    untagged = list[ShortUrl]()
    both = list[ShortUrl]()
    for same in by_slashtag.values():
        are_tagged = {bool(names.get(link.tag_id or 0)) for link in same}
        (both if len(are_tagged) > 1 else tagged if True in are_tagged else untagged).extend(same)
    found = await collect_each(tags=of_tag).to_dict()
    rest = await collect(keys=untagged)
    kind = type(rest)
    by_tag: StatsByTag[R] = StatsByTag({name: found.get(name) or kind(missing=1) for name in of_tag})
    if both:
        tags = kind.merge(by_tag.values())
        # Fresh: a journal may have some of these from before a late click.
        rest += _left(
            await collect(keys=both, fresh=True),
            await collect(keys=tagged, fresh=True),
            tags,
            # What failed is told once.
            is_same=not tags.missing and tags == await collect(tags=of_tag, fresh=True),
        )
    by_tag[None] = rest if all(names.values()) else replace(rest, reconciles=False)
    return by_tag


def _left(both: R, tagged: R, tags: R, *, is_same: bool) -> R:
    """Return `both` and `tagged` less `tags`, of every number none and at most that of `both`.

    A number outside does not reconcile, nor do any if `tags` are not the same afterwards. Where requests are
    missing there are no numbers, as those would lack clicks that a tag has.
    """
    total = both + tagged
    if total.missing or tags.missing:
        return type(both)(missing=total.missing, reconciles=False)
    fits = is_same and total.complete and tags.complete

    def left(most: Any, in_all: Any, less: Any) -> Any:
        nonlocal fits
        if not isinstance(most, int):  # counts by label, or by month of each year
            return {label: left(n, in_all[label], less.get(label, type(n)())) for label, n in most.items()}
        fits = fits and 0 <= in_all - less <= most
        return min(most, max(0, in_all - less))

    members: dict[str, Any]
    if isinstance(both, GeoStats):
        # Named places are lower bounds, so that nothing is known of what one of them has left.
        unnamed = {OTHER: left(both.total, total.total, tags.total)}
        members = dict.fromkeys(both.SUMS, unnamed) | {"places_are_exact": False}
    else:
        names = {"total_clicks", "clicks_total", "clicks_breakdown", *both.DIMENSIONS}
        members = {
            name: left(getattr(both, name), getattr(total, name), getattr(tags, name))
            for name in names & {*both.__struct_fields__}
        }
    if isinstance(both, PeriodStats):
        unique = min(both.clicks_unique, members["clicks_total"])
        repeated = members["clicks_total"] - unique
        members |= {"clicks_unique": unique, "clicks_repeated": repeated, "unique_is_exact": False}
    return replace(both, **members, reconciles=fits)

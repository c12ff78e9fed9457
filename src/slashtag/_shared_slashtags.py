"""Links by slashtag, and the rules for slashtags that several links share.

The service counts clicks by slashtag: one that several links have, on different domains, has the clicks of
all of them, and no request tells them apart. Only a tag is counted by link. Hence:

| A slashtag of the selected links | Its clicks |
|---|---|
| all its links are selected | exact, for these links together: a single row |
| other links, which are not selected, have it too ("foreign") | at most what the total of its tag leaves |
| several labels (tags, destinations) have it | count for none of them, as far as they could be another's |

What the total of a tag leaves is its clicks less those of the slashtags that only its links have. A foreign
slashtag has at most that, and at least that less the clicks of all other shared ones of the tag: if it is the
only one, its clicks are known. `Bounds` are such a least and most number. Ranks, shares and sums use the
least, so that shares add up to at most 100 % and no link takes a place that it may not have; the most is
shown beside it. Clicks without a tag are the total less those of all tags.

Built on top of the library: above the line in docs/architecture.md.
"""

import logging
from collections import Counter
from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from datetime import tzinfo
from itertools import chain
from typing import Any, NamedTuple, Self

from . import (
    AsyncSession,
    DateRange,
    Day,
    InvalidRequestError,
    Keys,
    OnError,
    Progress,
    RangeStats,
    ShortUrl,
)
from ._internal import check_slashtag, did_you_mean

log = logging.getLogger("slashtag")


class Bounds(NamedTuple):
    """The least and the most clicks that something may have; equal where they are known."""

    least: int
    most: int

    @property
    def are_equal(self) -> bool:
        """Whether the number is known."""
        return self.least == self.most


class Share(NamedTuple):
    """The least and the most clicks that the selected links of a foreign slashtag may have, as statistics.

    Each day and label is bounded by itself.
    """

    least: RangeStats
    most: RangeStats

    @property
    def total(self) -> Bounds:
        """The bounds of all clicks."""
        return Bounds(self.least.total, self.most.total)


class Links:
    """Links by slashtag, as the service counts them; a slashtag that was given as such has none.

    `uncountable` ones have a slashtag for which statistics cannot be requested.
    """

    def __init__(self) -> None:
        self.by_slashtag: dict[str, list[ShortUrl]] = {}
        self.uncountable: list[ShortUrl] = []
        #: Names of the tags that are selected, by id.
        self._tags: dict[int | None, str] = {}
        self._others: set[str | None] = set()

    @classmethod
    async def read(
        cls,
        session: AsyncSession,
        keys: Keys | None = None,
        tags: Iterable[str] | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Read `keys` (also asynchronous), list the links with one of `tags`, or all links of the account.

        Raises TypeError for both or a str, InvalidRequestError for given keys that cannot be requested and
        for tags that do not exist. See docs/service.md, List short URLs.
        """
        links = cls()
        if (keys is not None and tags is not None) or any(isinstance(of, str | bytes) for of in (keys, tags)):
            raise TypeError("pass keys=[...] or tags=[...], not both")
        if keys is not None:
            for key in [key async for key in keys] if isinstance(keys, AsyncIterable) else keys:
                if isinstance(key, ShortUrl):
                    links._add(key)
                else:
                    links.by_slashtag.setdefault(check_slashtag(key), [])
            return links
        wanted = set(tags or ())
        names = await names_of_tags(session, wanted) if wanted else {}
        links._tags = {id: name for id, name in names.items() if name in wanted}
        async with session.urls.list(progress=progress) as urls:
            async for url in urls:
                if tags is not None and url.tag_id not in links._tags:
                    links._others.add(url.slashtag)
                    continue
                links._add(url)
        return links

    @classmethod
    async def sharing(
        cls,
        session: AsyncSession,
        keys: Iterable[str | ShortUrl],
        progress: Progress | None = None,
        listed: Self | None = None,
    ) -> Self:
        """Return all links of the account with the slashtags of `keys`, whose clicks are counted together.

        `listed` has all links of the account if they were listed already.
        """
        links, every = await cls.read(session, keys), listed or await cls.read(session, progress=progress)
        links.by_slashtag |= {key: every.by_slashtag.get(key, of) for key, of in links.by_slashtag.items()}
        return links

    def _add(self, link: ShortUrl) -> None:
        try:
            same = self.by_slashtag.setdefault(check_slashtag(link), [])
        except InvalidRequestError:
            same = self.uncountable
        if link not in same:
            same.append(link)

    @property
    def all(self) -> list[ShortUrl]:
        """All these links, also uncountable ones."""
        return [*chain(*self.by_slashtag.values(), self.uncountable)]

    @property
    def keys(self) -> list[str | ShortUrl]:
        """What to pass as `keys` for all of them."""
        return self.keys_of(self.by_slashtag)

    def keys_of(self, slashtags: Iterable[str]) -> list[str | ShortUrl]:
        """Return what to pass as `keys`: all links of each slashtag, or one that was given as such."""
        found: list[str | ShortUrl] = []
        for slashtag in slashtags:
            found += self.by_slashtag[slashtag] or [slashtag]
        return found

    @property
    def hits(self) -> Counter[str]:
        """Hits of each slashtag, those of all its links."""
        return Counter({key: sum(url.hits or 0 for url in urls) for key, urls in self.by_slashtag.items()})

    @property
    def repeated(self) -> set[str]:
        """Slashtags that several of these links share."""
        return {slashtag for slashtag, links in self.by_slashtag.items() if len(links) > 1}

    @property
    def foreign(self) -> set[str]:
        """Slashtags of these links that other links have too, which were listed and not selected."""
        return self.by_slashtag.keys() & self._others

    @property
    def own(self) -> list[str]:
        """Slashtags that no link has but these, as far as links were listed."""
        return [slashtag for slashtag in self.by_slashtag if slashtag not in self._others]

    async def shares(
        self,
        session: AsyncSession,
        query: DateRange | Day,
        *,
        timezone: str | tzinfo | None = None,
        progress: Progress | None = None,
        on_error: OnError | None = None,
    ) -> dict[str, Share]:
        """Return what the selected links of each foreign slashtag may have; nothing if there are none.

        For each tag with foreign slashtags its total and the sum of its other slashtags are requested, and
        each foreign slashtag alone. `progress` is called with (slashtags done, total). With `on_error`
        failures are passed on, and the slashtags are left out whose bounds are then unknown. A tag with fewer
        clicks than its links is logged, and counted by `session.metrics.inconsistent`. Raises what `collect`
        raises (Statistics for a date or date range).
        """
        foreign = self.foreign
        options: dict[str, Any] = {"timezone": timezone, "on_error": on_error}
        tags: dict[str, dict[str, bool]] = {}
        for slashtag, links in self.by_slashtag.items():
            names = {self._tags[link.tag_id] for link in links if link.tag_id in self._tags}
            for name in names:
                tags.setdefault(name, {})[slashtag] = len(names) > 1 or slashtag in foreign
        tags = {name: slashtags for name, slashtags in tags.items() if not foreign.isdisjoint(slashtags)}
        asked_alone = dict.fromkeys(
            key for slashtags in tags.values() for key, is_shared in slashtags.items() if is_shared
        )
        each = session.stats.collect_each(query, keys=self.keys_of(asked_alone), progress=progress, **options)
        alone = {key: stats for key, stats in (await each.to_dict()).items() if not stats.missing}
        found: dict[str, list[Share]] = {}
        unknown = set[str]()
        for name, slashtags in tags.items():
            own = self.keys_of(key for key, is_shared in slashtags.items() if not is_shared)
            of_own = await session.stats.collect(query, keys=own, **options)
            # Last, as clicks may arrive meanwhile: it has all that were counted before.
            of_tag = await session.stats.collect(query, tag=name, **options)
            of_shared = {
                key: alone[key] for key, is_shared in slashtags.items() if is_shared and key in alone
            }
            if of_own.missing or of_tag.missing:
                unknown.update(of_shared)
                continue
            if of_own.total > of_tag.total:
                session.metrics.inconsistent += 1
                log.warning(
                    "tag %r: its links have %d clicks, and itself %d", name, of_own.total, of_tag.total
                )
            # Links that cannot be requested, or failed, may have what is left.
            are_all = len(of_shared) == sum(slashtags.values()) and not any(
                self._tags.get(link.tag_id) == name for link in self.uncountable
            )
            for key, share in shares_left(of_tag, of_own, of_shared, are_all=are_all).items():
                found.setdefault(key, []).append(share)
        return {
            key: _sum_of(shares, alone[key])
            for key, shares in found.items()
            if key in foreign and key not in unknown
        }

    def clicks_by(
        self, label_of: Callable[[ShortUrl], str], clicks: Mapping[str, Bounds]
    ) -> dict[str, Bounds]:
        """Add up clicks of slashtags by a label of their links; nothing if all have the same one.

        Clicks of a slashtag whose links have several labels may be those of any of them.
        """
        least, most = Counter[str](), Counter[str]()
        for slashtag, bounds in clicks.items():
            labels = set(map(label_of, self.by_slashtag[slashtag]))
            most.update(dict.fromkeys(labels, bounds.most))
            least.update(dict.fromkeys(labels, bounds.least if len(labels) == 1 else 0))
        return {label: Bounds(least[label], most[label]) for label in most} if len(most) > 1 else {}


def shares_left(
    of_tag: RangeStats, of_own: RangeStats, of_shared: Mapping[str, RangeStats], *, are_all: bool = True
) -> dict[str, Share]:
    """Return what a tag may have of the clicks of each shared slashtag, by day, by label and in all.

    `of_own` are the clicks of the slashtags that only links of the tag have. Unless `are_all`, other links of
    the tag, which are not counted, may have what is left too.
    """
    stats = [of_tag, of_own, *of_shared.values()]
    flags: dict[str, Any] = {
        "reconciles": all(each.reconciles for each in stats),
        "days_complete": all(each.days_complete for each in stats),
    }
    least: dict[str, dict[str, Any]] = {key: {} for key in of_shared}
    most: dict[str, dict[str, Any]] = {key: {} for key in of_shared}
    for name in RangeStats.DIMENSIONS:
        is_known = are_all and all(_has_all(each, name) for each in stats)
        maps: dict[str, dict[Any, int]] = {key: getattr(each, name) for key, each in of_shared.items()}
        together = sum(map(Counter[Any], maps.values()), Counter[Any]())
        total, own = getattr(of_tag, name), getattr(of_own, name)
        for key, counts in maps.items():
            bounds = {
                # Without its labels nothing is known of what the tag leaves.
                label: _bounds_of(n, total.get(label, 0) - own.get(label, 0), together[label], is_known)
                if _has_all(of_tag, name)
                else Bounds(0, n)
                for label, n in counts.items()
            }
            least[key][name] = {label: n for label, (n, _) in bounds.items() if n or name == "clicks"}
            most[key][name] = {label: n for label, (_, n) in bounds.items() if n or name == "clicks"}
    together_in_all = sum(each.total for each in of_shared.values())
    for key, each in of_shared.items():
        lowest, highest = _bounds_of(each.total, of_tag.total - of_own.total, together_in_all, are_all)
        if flags["days_complete"]:
            # Days may say more than the total: of one on which the tag has no clicks, none are its own.
            highest = min(highest, sum(most[key]["clicks"].values()))
            lowest = min(highest, max(lowest, sum(least[key]["clicks"].values())))
        least[key]["total_clicks"], most[key]["total_clicks"] = lowest, highest
    return {
        key: Share(RangeStats(**least[key], **flags), RangeStats(**most[key], **flags)) for key in of_shared
    }


def _bounds_of(clicks: int, left: int, together: int, is_known: bool) -> Bounds:
    """Return the bounds of what one of several slashtags, with `clicks`, may have of what is left."""
    most = min(clicks, max(0, left))
    return Bounds(min(most, max(0, left - (together - clicks))) if is_known else 0, most)


def _has_all(stats: RangeStats, name: str) -> bool:
    """Whether a map of statistics has all clicks."""
    return stats.days_complete if name == "clicks" else name not in stats.incomplete_dimensions


def _sum_of(shares: list[Share], whole: RangeStats) -> Share:
    """Add up the shares of several tags in a slashtag, which has no more than its `whole` clicks."""
    if len(shares) == 1:
        return shares[0]
    least, most = (RangeStats.merge(parts) for parts in zip(*shares, strict=True))
    return Share(combined(least, whole, min), combined(most, whole, min))


def combined(one: RangeStats, other: RangeStats, combine: Callable[[int, int], int]) -> RangeStats:
    """Combine the clicks of two statistics by day, by label and in all; the labels are those of the first."""
    maps: dict[str, Any] = {}
    for name in RangeStats.DIMENSIONS:
        counts, others = getattr(one, name), getattr(other, name)
        found = {label: combine(n, others.get(label, 0)) for label, n in counts.items()}
        maps[name] = {label: n for label, n in found.items() if n or name == "clicks"}
    return RangeStats(
        total_clicks=combine(one.total, other.total),
        reconciles=one.reconciles and other.reconciles,
        days_complete=one.days_complete and other.days_complete,
        **maps,
    )


async def names_of_tags(session: AsyncSession, wanted: Iterable[str] = ()) -> dict[int, str]:
    """Return the names of all tags by id; raises InvalidRequestError if one that is wanted does not exist."""
    names, _ = await read_names_of_tags(session)
    for name in wanted:
        if name not in names.values():
            are_several = {part.strip() for part in name.split(",")}.issubset(names.values())
            meant = "; give each by itself" if are_several else did_you_mean(name, names.values())
            if name.strip("()").lower() in ("", "none", "no tag", "untagged"):
                meant = "; `slashtag urls list --untagged` lists the links without one"
            raise InvalidRequestError(f"the account has no tag {name!r}{meant}")
    return names


async def read_names_of_tags(session: AsyncSession) -> tuple[dict[int, str], int]:
    """Return the names of all tags by id, and the number of tags whose name could not be read.

    Clicks of the latter cannot be requested, and are missing where all tags are selected.
    """
    tags = await session.tags.list().to_list()
    names = {tag.id: tag.name for tag in tags if tag.name}
    return names, len(tags) - len(names)

"""Clicks of all tags, and of links without one, so that the sum is the account's.

Built on top of the library: above the line in docs/architecture.md.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import tzinfo
from operator import sub
from typing import Any, Self, TypeVar

from msgspec.structs import replace

from . import (
    AsyncSession,
    DateRange,
    Day,
    OnError,
    Progress,
    Query,
    RangeStats,
    ShortUrl,
    Statistics,
)
from ._internal import results_of
from ._shared_slashtags import Links, combined, names_of_tags, read_names_of_tags, shares_left

S = TypeVar("S", bound=Statistics)
#: Label of the clicks of links without a tag.
NO_TAG = "no tag"


def _group_by_tag(
    links: Iterable[ShortUrl], names: Mapping[Any, str], wanted: Iterable[str]
) -> dict[str, list[ShortUrl]]:
    """Group links by the name of their tag, given those of all by id; without links of other tags."""
    found: dict[str, list[ShortUrl]] = {name: [] for name in wanted}
    for link in links:
        if (name := names.get(link.tag_id)) in found:
            found[name].append(link)
    return found


async def links_of_tags(session: AsyncSession, wanted: Iterable[str]) -> dict[str, list[ShortUrl]]:
    """Return the links of each tag by its name, as the account has them now.

    Names that no tag has are among them, without links. See docs/service.md, List short URLs; List tags.
    """
    names = await names_of_tags(session)
    return _group_by_tag(await session.urls.list().to_list(), names, wanted)


class ByTag:
    """Links of all tags and without one, whose clicks add up to those of the account; or some tags.

    The service has no selector for links without a tag. Their slashtags are requested, and of those that
    links with a tag have too ("mixed") they have what all tags leave of the total.
    """

    def __init__(
        self,
        names: Iterable[str],
        links: Links | None = None,
        name_of: Mapping[int, str] | None = None,
        unnamed: int = 0,
    ) -> None:
        self._names = list(dict.fromkeys(names))
        #: Names of the tags by id, where all are selected.
        self._name_of: Mapping[int, str] = name_of or {}
        self.links = Links() if links is None else links
        #: Tags that cannot be requested, as their name cannot be read, or they are not listed.
        self.unnamed = unnamed
        #: The label of the links without a tag, None where tags are selected.
        self.no_tag = None if links is None else NO_TAG
        #: Whether links without a tag are counted as what all tags leave.
        self._has_rest = links is not None
        while self.no_tag in self._names:
            self.no_tag = f"({self.no_tag})"

    @classmethod
    async def read(
        cls, session: AsyncSession, tags: Iterable[str] | None = None, progress: Progress | None = None
    ) -> Self:
        """List all tags and links; raises InvalidRequestError where one of the tags given does not exist."""
        if tags is not None:
            tags = list(tags)
            await names_of_tags(session, tags)
            return cls(tags)
        names, unnamed = await read_names_of_tags(session)
        links = await Links.read(session, progress=progress)
        # A link may have a tag that is not listed, as one that was created meanwhile.
        used = {link.tag_id for link in links.all} - {None}
        return cls(names.values(), links, names, max(unnamed, len(used - names.keys())))

    async def count(
        self,
        session: AsyncSession,
        query: Query[S],
        *,
        by: Callable[[S], Mapping[Any, int]] = lambda stats: {"": stats.total},
        timezone: str | tzinfo | None = None,
        progress: Progress | None = None,
    ) -> tuple[S, dict[str, dict[Any, int]], int]:
        """Return the sum, the clicks of each tag, the most first, then of none, and what these are too many.

        `by` gives the clicks by the labels of a dimension, by default all as those of the label "", and so
        the results have them. They are too many where links have several tags, so that rows overlap, and
        where links cannot be requested, whose tags can be; too few (negative) where a tag is not listed or
        its name cannot be read. `progress` is called with (tags counted, total). Raises what `collect` raises
        (Statistics: common selector).
        """
        # Tags last, as clicks may arrive meanwhile.
        tagged, untagged, mixed = [
            await session.stats.collect(query, keys=self.links.keys_of(keys), timezone=timezone)
            for keys in (self._apart() if self._has_rest else ((), (), ()))
        ]
        by_tag = await self._collect_each(session, query, timezone=timezone, progress=progress)
        names = sorted(by_tag, key=lambda name: (name == self.no_tag, -by_tag[name].total, name))
        clicks = {name: {**by(by_tag[name])} for name in names}
        if self.no_tag is None or not self._has_rest:
            return tagged.merge(by_tag.values()), clicks, 0
        total = tagged + untagged + mixed
        of_tags = Counter[Any]()
        for counts in clicks.values():
            of_tags.update(counts)
        least, of_mixed, of_all = by(untagged), by(mixed), by(total)
        rest: dict[Any, int] = {}
        too_many = Counter[bool]()
        for label in {**of_all, **of_tags}:
            left = of_all.get(label, 0) - of_tags[label]
            lowest = least.get(label, 0)
            # Links without a tag have all clicks of their own slashtags, and of mixed ones at most all.
            rest[label] = min(max(left, lowest), lowest + of_mixed.get(label, 0))
            too_many[rest[label] > left] += rest[label] - left
        clicks[self.no_tag] = rest
        return total, clicks, too_many[True] or too_many[False]

    async def _collect_each(self, session: AsyncSession, query: Query[S], **options: Any) -> dict[str, S]:
        """Return the statistics of each tag."""
        return await session.stats.collect_each(query, tags=self._names, **options).to_dict()

    async def without_tag(
        self,
        session: AsyncSession,
        query: DateRange | Day,
        of_tags: RangeStats | None,
        *,
        timezone: str | tzinfo | None = None,
        on_error: OnError | None = None,
    ) -> RangeStats:
        """Return the statistics of links without a tag, given the sum of those of all tags, None if unknown.

        A slashtag that links with a tag have too has by day and by label what all tags leave for it; where
        that is not known nothing of it is counted, and the result does not reconcile. With `on_error`
        failures are passed on. Raises what `collect` raises (Statistics for a date or date range).
        """

        async def count(keys: Iterable[str]) -> RangeStats:
            return await session.stats.collect(
                query, keys=self.links.keys_of(keys), timezone=timezone, on_error=on_error
            )

        tagged, untagged, mixed = self._apart()
        found = await count(untagged)
        if not mixed:
            return found
        of_tagged, of_mixed = await count(tagged), await count(mixed)
        if of_tags is None or self.unnamed or of_tagged.missing or of_mixed.missing:
            return replace(found, reconciles=False)
        # What the tags have of these is known, so they have the rest.
        (share,) = shares_left(of_tags, of_tagged, {"": of_mixed}).values()
        return found + combined(of_mixed, share.most, sub)

    @property
    def links_of(self) -> dict[str, list[ShortUrl]]:
        """The links of each tag by its name, where all are selected."""
        return _group_by_tag(self.links.all, self._name_of, self._names)

    def _apart(self) -> tuple[list[str], list[str], list[str]]:
        """Return the slashtags of links with a tag, of those without one, and of both."""
        apart: dict[bool | None, list[str]] = {True: [], False: [], None: []}
        for slashtag, links in self.links.by_slashtag.items():
            is_tagged = {link.tag_id is not None for link in links}
            apart[None if len(is_tagged) > 1 else is_tagged.pop()].append(slashtag)
        return apart[True], apart[False], apart[None]


class ByTagOfLinks(ByTag):
    """Given links by their tag; a slashtag of links with different tags has the names of all these."""

    def __init__(self, links: Links, names: Mapping[int, str]) -> None:
        super().__init__(names.values(), links, names)
        self._has_rest = False
        #: Slashtags by the names of their tags.
        self._groups: dict[str, list[str]] = {}
        #: Slashtags that links with different tags share.
        self.several = 0
        for slashtag, of in links.by_slashtag.items():
            tags = {link.tag_id for link in of} or {None}
            labels = [NO_TAG if id is None else names.get(id, f"tag {id}") for id in tags]
            label = ", ".join(sorted(labels)) if tags != {None} else self.no_tag or NO_TAG
            self._groups.setdefault(label, []).append(slashtag)
            self.several += len(tags) > 1

    @classmethod
    async def of(
        cls,
        session: AsyncSession,
        keys: Iterable[str | ShortUrl],
        progress: Progress | None = None,
        listed: Links | None = None,
    ) -> Self:
        """List all tags, and all links unless they are `listed`; see `Links.sharing`."""
        names = await names_of_tags(session)
        return cls(await Links.sharing(session, keys, progress, listed), names)

    async def _collect_each(self, session: AsyncSession, query: Query[S], **options: Any) -> dict[str, S]:
        progress = options.pop("progress")

        async def sum_of(slashtags: Iterable[str]) -> S:
            return await session.stats.collect(query, keys=self.links.keys_of(slashtags), **options)

        found = await results_of(sum_of, self._groups.values(), progress)
        return dict(zip(self._groups, found, strict=True))

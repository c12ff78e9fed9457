"""Options for what docs/service.md leaves open."""

from typing import Annotated, Literal, TypedDict

import msgspec
from msgspec import Meta


class Behaviour(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Choice for each behaviour that docs/service.md does not state: keyword arguments of Sandbox."""

    range_end: Literal["inclusive", "exclusive"] = "inclusive"
    """Whether a click at the end instant of `date_range` is counted."""
    day_clicks: bool = False
    """Whether the answer for a single day has the member `clicks`."""
    zero_days: bool = False
    """Whether `clicks` lists days, and `clicks_breakdown` the months of an active year, without clicks."""
    empty_maps: Literal["object", "array"] = "object"
    """How a map without entries is written: `{}` or `[]`."""
    places: Annotated[int, Meta(ge=0)] = 50
    """Number of names that a geo map shows before `Other`."""
    paths: Literal["stated", "samples", "both"] = "stated"
    """Paths of yearly and all-time statistics: the stated ones, those of the samples, or both."""
    unknown_keys: Literal["ignore", "error"] = "ignore"
    """Whether a slashtag that no link has counts zero or gives a 400."""
    omitted: Literal["keep", "reset"] = "keep"
    """What an update does to omitted members: keep them, or reset them to the documented defaults."""
    max_pagesize: Annotated[int, Meta(ge=1, le=500)] = 500
    """Larger page sizes, up to the documented 500, are lowered to this; the answer's `pageSize` shows it."""
    max_tags: Annotated[int, Meta(ge=0)] = 500
    """Maximum number of tags of the account."""


class BehaviourOptions(TypedDict, total=False):
    """Options of Behaviour as keyword arguments."""

    range_end: Literal["inclusive", "exclusive"]
    day_clicks: bool
    zero_days: bool
    empty_maps: Literal["object", "array"]
    places: int
    paths: Literal["stated", "samples", "both"]
    unknown_keys: Literal["ignore", "error"]
    omitted: Literal["keep", "reset"]
    max_pagesize: int
    max_tags: int

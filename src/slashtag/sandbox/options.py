"""Options for what docs/service.md leaves open."""

from typing import Annotated, Literal, TypedDict

from msgspec import Meta


class Behaviour(TypedDict, total=False):
    """Choice for each behaviour that docs/service.md does not state: keyword arguments of Sandbox."""

    range_end: Literal["inclusive", "exclusive"]
    """Whether a click at the end instant of `date_range` is counted; inclusive by default."""
    day_clicks: bool
    """Whether the answer for a single day has the member `clicks`; not by default."""
    zero_days: bool
    """Whether `clicks` lists days, and `clicks_breakdown` the months of an active year, without clicks; not
    by default."""
    empty_maps: Literal["object", "array"]
    """How a map without entries is written: `{}`, by default, or `[]`."""
    places: Annotated[int, Meta(ge=0)]
    """Number of names that a geo map shows before `Other`; 50 by default."""
    paths: Literal["stated", "samples", "both"]
    """Paths of yearly and all-time statistics: the stated ones, by default, those of the samples, or both."""
    unknown_keys: Literal["ignore", "error"]
    """Whether a slashtag that no link has counts zero, by default, or gives a 400."""
    max_pagesize: Annotated[int, Meta(ge=1, le=500)]
    """Larger page sizes, up to the documented 500, are lowered to this; the answer's `pageSize` shows it."""
    max_tags: Annotated[int, Meta(ge=0)]
    """Maximum number of tags of the account; 500 by default."""

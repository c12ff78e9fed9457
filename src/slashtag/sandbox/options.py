"""Options for what docs/service.md leaves open."""

from dataclasses import dataclass, fields
from typing import Literal, get_args, get_origin, get_type_hints


@dataclass(frozen=True, kw_only=True, slots=True)
class Behaviour:
    """Choice for each behaviour that docs/service.md does not state.

    Raises ValueError for a value that is not one of those listed.
    """

    range_end: Literal["inclusive", "exclusive"] = "inclusive"
    """Whether a click at the end instant of `date_range` is counted."""
    range_span: Literal["elapsed", "dates"] = "elapsed"
    """Whether the limit of 32 days is time elapsed, or also the number of dates that a range touches."""
    day_clicks: bool = False
    """Whether the answer for a single day has the member `clicks`."""
    zero_days: bool = False
    """Whether `clicks` lists days, and `clicks_breakdown` the months of an active year, without clicks."""
    empty_maps: Literal["object", "array"] = "object"
    """How a map without entries is written: `{}` or `[]`."""
    places: int = 50
    """Number of names that a geo map shows before `Other`."""
    paths: Literal["stated", "samples", "both"] = "stated"
    """Paths of yearly and all-time statistics: the stated ones, those of the samples, or both."""
    unknown_keys: Literal["ignore", "error"] = "ignore"
    """Whether a slashtag that no link has counts zero or gives a 400."""
    omitted: Literal["keep", "reset"] = "keep"
    """What an update does to omitted members: keep them, or reset them to the documented defaults."""
    max_pagesize: int = 500
    """Larger page sizes, up to the documented 500, are lowered to this; the answer's `pageSize` shows it."""
    max_tags: int = 500
    """Maximum number of tags of the account."""

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        for field in fields(self):
            value: object = getattr(self, field.name)
            choices = get_args(hints[field.name]) if get_origin(hints[field.name]) is Literal else ()
            if choices and value not in choices:
                raise ValueError(f"{field.name} is one of {', '.join(choices)}, not {value!r}")
        if not 1 <= self.max_pagesize <= 500:
            raise ValueError(f"max_pagesize is 1 to 500, not {self.max_pagesize}")
        if self.places < 0 or self.max_tags < 0:
            raise ValueError("places and max_tags are not negative")

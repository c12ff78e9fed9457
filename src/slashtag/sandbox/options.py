"""What the service document leaves open, as values that a sandbox is given."""

from dataclasses import dataclass, fields
from typing import Literal, get_args, get_origin, get_type_hints


@dataclass(frozen=True, kw_only=True, slots=True)
class Behaviour:
    """Fix every behaviour that the service document does not state.

    Raises ValueError for a value that is not one of those listed.
    """

    range_end: Literal["inclusive", "exclusive"] = "inclusive"
    """Whether a click at the end instant of `date_range` is counted."""
    range_span: Literal["elapsed", "dates"] = "elapsed"
    """Whether the 32 days of a `date_range` are time elapsed, or also the dates that it touches."""
    day_clicks: bool = False
    """Whether the answer for one single day bears `clicks`."""
    zero_days: bool = False
    """Whether `clicks` lists days, and `clicks_breakdown` the months of an active year, without clicks."""
    empty_maps: Literal["object", "array"] = "object"
    """How a map without entries is written: `{}` or `[]`."""
    places: int = 50
    """How many names a geo map shows before `Other`."""
    paths: Literal["stated", "samples", "both"] = "stated"
    """Where yearly and all-time statistics live: their stated paths, the form of the samples, or both."""
    unknown_keys: Literal["ignore", "error"] = "ignore"
    """Whether a slashtag nobody has counts zero or makes the question a 400."""
    omitted: Literal["keep", "reset"] = "keep"
    """What an update does to the members it does not name: nothing, or the defaults of the document."""
    max_pagesize: int = 500
    """Page sizes above this, up to the documented 500, are lowered silently; the answer says so."""
    max_tags: int = 500
    """How many tags the account may have."""

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

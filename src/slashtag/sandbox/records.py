"""Plain frozen values that Truth returns."""

from dataclasses import dataclass
from datetime import date


@dataclass(frozen=True, kw_only=True)
class TrueUrl:
    """A link; instants as records show them, `YYYY-MM-DD HH:MM:SS`."""

    id: int
    slashtag: str
    domain_id: int
    short_url: str
    destination: str
    hits: int
    redirect_code: int
    password: str
    created_at: str
    updated_at: str
    tag_id: int | None


@dataclass(frozen=True)
class TrueTag:
    """A tag; the instant as records show it, `YYYY-MM-DD HH:MM:SS`."""

    id: int
    name: str
    description: str
    created_at: str


@dataclass(frozen=True, kw_only=True)
class TrueRange:
    """Counts of a range: `clicks` has every day of it, zeros too; the maps have no zero entries."""

    total_clicks: int
    clicks: dict[date, int]
    device: dict[str, int]
    browser: dict[str, int]
    platform: dict[str, int]
    country: dict[str, int]
    referrer: dict[str, int]


@dataclass(frozen=True, kw_only=True)
class TruePeriod:
    """Counts of a year or of all time; `clicks_breakdown` is year -> month -> clicks, no zeros."""

    clicks_total: int
    clicks_unique: int
    clicks_repeated: int
    clicks_breakdown: dict[int, dict[int, int]]
    browser: dict[str, int]
    country: dict[str, int]
    device: dict[str, int]
    platform: dict[str, int]
    referrer: dict[str, int]
    timezone: dict[str, int]


@dataclass(frozen=True, kw_only=True)
class TrueCountry:
    """Counts of one country: all names, no `Other`."""

    state: dict[str, int]
    city: dict[str, int]
    postalcode: dict[str, int]

"""Values that Truth returns."""

from dataclasses import dataclass
from datetime import date


@dataclass(frozen=True, kw_only=True)
class TrueUrl:
    """Link; times as in answers, `YYYY-MM-DD HH:MM:SS`."""

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
    """Tag; the time as in answers, `YYYY-MM-DD HH:MM:SS`."""

    id: int
    name: str
    description: str
    created_at: str


@dataclass(frozen=True, kw_only=True)
class _TrueMaps:
    """Counts by label, without zeros."""

    device: dict[str, int]
    browser: dict[str, int]
    platform: dict[str, int]
    country: dict[str, int]
    referrer: dict[str, int]


@dataclass(frozen=True, kw_only=True)
class TrueRange(_TrueMaps):
    """Counts of a range; `clicks` has every day of it, including zeros."""

    total_clicks: int
    clicks: dict[date, int]


@dataclass(frozen=True, kw_only=True)
class TruePeriod(_TrueMaps):
    """Counts of a year or of all time; `clicks_breakdown` is year -> month -> clicks, without zeros."""

    clicks_total: int
    clicks_unique: int
    clicks_repeated: int
    clicks_breakdown: dict[int, dict[int, int]]
    timezone: dict[str, int]


@dataclass(frozen=True, kw_only=True)
class TrueCountry:
    """Counts of one country by place: all names, no `Other`."""

    state: dict[str, int]
    city: dict[str, int]
    postalcode: dict[str, int]

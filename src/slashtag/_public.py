"""All public names; `slashtag` imports them on first use."""

from ._core.call import Call, Failure
from ._core.change import Change, Outcome
from ._core.plan import Plan
from ._core.queries import AllTime, CountryGeo, DateRange, Day, Query, Year
from ._core.retry import RetryPolicy
from ._errors import (
    APIError,
    AuthenticationError,
    BadRequestError,
    ConfigurationError,
    ExportError,
    InvalidRequestError,
    JournalError,
    NotFoundError,
    OutcomeUnknownError,
    PaginationError,
    RateLimitError,
    RequestTimeoutError,
    ServerError,
    SessionClosedError,
    SlashtagError,
    TagLimitError,
    TransportError,
    UnexpectedResponseError,
    UnknownTagError,
)
from ._models import GeoStats, Page, PeriodStats, RangeStats, ShortUrl, Statistics, Tag
from ._records import to_builtins
from ._resources.listing import Listing
from ._resources.stats import Stats
from ._resources.tags import Tags
from ._resources.urls import Urls
from ._sending.metrics import Metrics
from ._session import AsyncSession

__all__ = [
    "APIError",
    "AllTime",
    "AsyncSession",
    "AuthenticationError",
    "BadRequestError",
    "Call",
    "Change",
    "ConfigurationError",
    "CountryGeo",
    "DateRange",
    "Day",
    "ExportError",
    "Failure",
    "GeoStats",
    "InvalidRequestError",
    "JournalError",
    "Listing",
    "Metrics",
    "NotFoundError",
    "Outcome",
    "OutcomeUnknownError",
    "Page",
    "PaginationError",
    "PeriodStats",
    "Plan",
    "Query",
    "RangeStats",
    "RateLimitError",
    "RequestTimeoutError",
    "RetryPolicy",
    "ServerError",
    "SessionClosedError",
    "ShortUrl",
    "SlashtagError",
    "Statistics",
    "Stats",
    "Tag",
    "TagLimitError",
    "Tags",
    "TransportError",
    "UnexpectedResponseError",
    "UnknownTagError",
    "Urls",
    "Year",
    "to_builtins",
]

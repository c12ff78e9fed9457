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
    "Tag",
    "TagLimitError",
    "TransportError",
    "UnexpectedResponseError",
    "UnknownTagError",
    "Year",
]

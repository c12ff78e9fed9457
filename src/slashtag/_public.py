"""All public names; `slashtag` imports them on first use."""

from ._clicks_table import ClicksTable
from ._core.batches import Keys
from ._core.checks import Progress
from ._core.queries import AllTime, CountryGeo, DateRange, Day, Plan, Query, Year
from ._core.retry import RetryPolicy
from ._core.windows import Zone, parse_zone
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
    QueueTimeoutError,
    RateLimitError,
    RequestFailedError,
    RequestTimeoutError,
    ServerError,
    SessionClosedError,
    SlashtagError,
    TagLimitError,
    TransportError,
    UnexpectedResponseError,
    UnknownTagError,
)
from ._fanout import Results
from ._records import Page, ShortUrl, Tag
from ._resources.listing import Listing
from ._resources.run import Failure, OnError
from ._resources.urls import Change, Outcome
from ._sending.metrics import Metrics
from ._session import AsyncSession
from ._summed_statistics import GeoStats, PeriodStats, RangeStats, Statistics

__all__ = [
    "APIError",
    "AllTime",
    "AsyncSession",
    "AuthenticationError",
    "BadRequestError",
    "Change",
    "ClicksTable",
    "ConfigurationError",
    "CountryGeo",
    "DateRange",
    "Day",
    "ExportError",
    "Failure",
    "GeoStats",
    "InvalidRequestError",
    "JournalError",
    "Keys",
    "Listing",
    "Metrics",
    "NotFoundError",
    "OnError",
    "Outcome",
    "OutcomeUnknownError",
    "Page",
    "PaginationError",
    "PeriodStats",
    "Plan",
    "Progress",
    "Query",
    "QueueTimeoutError",
    "RangeStats",
    "RateLimitError",
    "RequestFailedError",
    "RequestTimeoutError",
    "Results",
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
    "Zone",
    "parse_zone",
]

"""The internal names that cli, export, report, dask, dlt and bulk_update may import.

They use public names of `slashtag` and otherwise only these; tests/test_layers.py checks that. These names
may change without notice. Add one only if the public interface is not sufficient.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable
from datetime import date, timedelta, tzinfo
from difflib import get_close_matches
from hashlib import pbkdf2_hmac
from typing import TypeVar

from msgspec import structs

from ._arrow import Kind as Kind
from ._arrow import arrow_columns as arrow_columns
from ._arrow import import_extra as import_extra
from ._core.any_endpoint import METHODS as METHODS
from ._core.batches import Selector as Selector
from ._core.batches import check_slashtag as check_slashtag
from ._core.batches import halves as halves
from ._core.call import MAX_SLASHTAG as MAX_SLASHTAG
from ._core.call import Progress
from ._core.call import check_callback as check_callback
from ._core.countries import countries as countries
from ._core.dates import PREVIOUS as PREVIOUS
from ._core.dates import days_apart as days_apart
from ._core.paging import Paging
from ._core.windows import DAY as DAY
from ._core.windows import last_day as last_day
from ._core.windows import windows
from ._credentials import strip_invisible as strip_invisible
from ._errors import SlashtagError, TransportError
from ._fanout import WorkerPool as WorkerPool
from ._files import FileLock as FileLock
from ._files import boot_id as boot_id
from ._files import check_local_path as check_local_path
from ._files import in_thread as in_thread
from ._files import object_url as object_url
from ._files import sync_folder as sync_folder
from ._journal.file import remove_journal as remove_journal
from ._profiles import VARIABLES as VARIABLES
from ._profiles import VERSION as VERSION
from ._profiles import Login as Login
from ._profiles import find_saved as find_saved
from ._profiles import login_path as login_path
from ._profiles import profiles as profiles
from ._profiles import read_login as read_login
from ._records import ShortUrl
from ._resources.current_statistics import CurrentStatistics as CurrentStatistics
from ._resources.listing import Listing
from ._resources.top import rank as rank
from ._resources.urls import find_doubts as find_doubts
from ._resources.urls import find_problems as find_problems
from ._sending.health import is_refusal as is_refusal
from ._sending.metrics import MOST_BEHIND as MOST_BEHIND
from ._session import AsyncSession
from ._summed_statistics import days as days
from ._summed_statistics import many as many

T = TypeVar("T")

#: Attempts of a request that its caller can do without.
OPTIONAL_ATTEMPTS = 3
log = logging.getLogger("slashtag")


def did_you_mean(given: str, names: Iterable[str]) -> str:
    """Return a question about the name that is most like the one given; empty if none is."""
    close = get_close_matches(given, [name for name in names if name], n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def account_key(session: AsyncSession, salt: str) -> bytes:
    """Return 64 bytes derived from base URL and apikey, different for each salt, and slow to compute.

    The apisecret has no part in it: it may be replaced without changing the account.
    """
    account = f"{session.base_url}\0{session._transport.credentials.apikey}"
    return pbkdf2_hmac("sha256", account.encode(), salt.encode(), 5_000, 64)


def keep_rate(session: AsyncSession) -> AsyncSession:
    """Have a session begin at the rate that the last run of its account learnt, and keep what it learns."""
    throttle = session._sender.admission.throttle
    session._keeps_rate = throttle.learned_rate is None
    return session


def one_operation(session: AsyncSession) -> AsyncSession:
    """Return a view of the session whose requests are one operation, in turn with those of others."""
    view = session.with_options()
    view._use(view._sender.of_operation())
    return view


def has_journal(session: AsyncSession) -> bool:
    """Return whether a session is a resumable job."""
    return session._journal is not None


def set_aside_journal(session: AsyncSession) -> None:
    """Have a journal that is of no use to a job, as it is another's or too old, set aside with a warning."""
    if session._journal is not None:
        session._journal.sets_aside = True


def list_anew(session: AsyncSession) -> None:
    """Have a job list links and tags anew, as statistics are to be requested about them."""
    if session._journal is not None:
        session._journal.list_anew()


def list_current(session: AsyncSession, progress: Progress | None = None) -> Listing[ShortUrl]:
    """List all links as `list` does with `anew`, and accept no answer from before it was asked for.

    Iterating raises UnexpectedResponseError for an answer that is older by its Age or Date, as of a cache
    that answers all the same.
    """
    return Listing(session.urls, Paging(), progress, anew=True, freshness="current")


async def optional(
    session: AsyncSession, what: str, request: Callable[[AsyncSession], Awaitable[T]]
) -> T | None:
    """Return what a request gives that the caller can do without; None, with a warning, if it fails.

    `request` is called with a view of the session that makes few attempts, and with the session itself where
    the service is not reached. Raises errors that all requests would have.
    """
    policy = session._sender.retry
    few = structs.replace(policy, max_attempts=min(policy.max_attempts, OPTIONAL_ATTEMPTS))
    try:
        return await request(session.with_options(retry=few))
    except SlashtagError as error:
        if error.is_fatal:
            raise
        if not (isinstance(error, TransportError) and error.unsent):
            log.warning("%s: left out, as the request failed: %s", what, error)
            return None
    return await request(session)


def offsets_of(first: date, last: date, zone: tzinfo) -> list[timedelta]:
    """Return the UTC offsets that a zone has from the first to the last day."""
    return list(dict.fromkeys(window.offset for window in windows(first, last, zone)))

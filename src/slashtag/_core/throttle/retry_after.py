"""Parser of `Retry-After`: delay in seconds, or an HTTP date (RFC 9110, 10.2.3).

Parsing is strict: a value that the specification does not allow counts as absent, because a wrong pause is
worse than none. The service documents no rate-limit headers, so none are read.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import lru_cache

MAX_DELAY = 86_400.0
"""Longest Retry-After used, in seconds; longer ones are shortened to a day."""

_SECONDS = re.compile(r"[0-9]{1,18}")
_DATE = re.compile(
    r"[A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9:]{8} GMT"  # IMF-fixdate
    r"|[A-Z][a-z]{5,8}, [0-9]{2}-[A-Z][a-z]{2}-[0-9]{2} [0-9:]{8} GMT"  # RFC 850
    r"|[A-Z][a-z]{2} [A-Z][a-z]{2} [0-9 ][0-9] [0-9:]{8} [0-9]{4}"  # asctime
)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the delay of `Retry-After`, in seconds, or None if it is absent or malformed.

    The names of `headers` ignore case. A date counts from the answer's own `Date` (the server's clock);
    without it it is unknown: None. The delay is 0 to `MAX_DELAY` (a day).
    """
    value = headers.get("Retry-After") or ""
    if _SECONDS.fullmatch(value.strip(" \t")):
        seconds = float(value)
    else:
        at, start = http_date(value), http_date(headers.get("Date") or "")
        if at is None or start is None:
            return None
        seconds = at - start
    return min(max(seconds, 0.0), MAX_DELAY)


@lru_cache(maxsize=16)
def http_date(value: str) -> float | None:
    """Return an HTTP date in epoch seconds, or None if it is not one."""
    with suppress(ValueError):  # day 31 of February, hour 77, year 0
        if _DATE.fullmatch(value.strip(" \t")):
            return parsedate_to_datetime(value).replace(tzinfo=UTC).timestamp()
    return None

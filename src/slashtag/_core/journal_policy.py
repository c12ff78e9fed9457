"""Decide which stored answers are still valid when a job is run again."""

from __future__ import annotations

from typing import Any

from .._models import Page
from .call import Call

#: Statistics of a period that ended less than this many seconds before the answer are requested again: the
#: service counted before the answer arrived, and by its own clock.
SETTLING_SECONDS = 300.0


def worth_keeping(call: Call[Any], data: object, fetched: float) -> bool:
    """Return True if an answer will still be valid when the job is run again.

    `fetched` is the wall clock's time of the answer. A page is valid if it was full, since the last page
    grows; if the listing was read oldest first, since in another order new records shift every page; and
    if it is the page that was requested. If the service has changed its page size since, the listing
    notices and requests the page again. Statistics are valid if their period had ended.
    """
    if call.method != "GET":
        return False
    if isinstance(data, Page):
        page: Page[Any] = data  # pyright: ignore[reportUnknownVariableType]
        stays = ("orderby", "date") in call.params and ("page", str(page.page)) in call.params
        return stays and 0 < page.page_size <= len(page.items)
    return is_final(call, fetched)


def is_final(call: Call[Any], fetched: float) -> bool:
    """Return True if the period of a statistics call had ended when its answer was fetched."""
    return fetched > call.settled_at + SETTLING_SECONDS

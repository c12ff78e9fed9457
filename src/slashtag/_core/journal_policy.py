"""Which answers of an earlier run of a job still hold."""

from __future__ import annotations

from typing import Any

from .._models import Page
from .call import Call

#: An answer is counted before it arrives, and the service's clock is not this machine's: what had ended
#: only so many seconds before is asked for again.
SETTLING_SECONDS = 300.0


def may_replay(call: Call[Any], data: object, fetched: float) -> bool:
    """Tell whether an answer fetched at a wall clock's time will still hold when the job is run again.

    A page holds if it was full, since the last one grows, and if the listing was read oldest first, since
    in another order new records shift every page; one that was given in place of another, beyond the end,
    does not. Statistics hold if what they count had ended.
    """
    if call.method != "GET":
        return False
    if isinstance(data, Page):
        page: Page[Any] = data  # pyright: ignore[reportUnknownVariableType]
        asked = ("orderby", "date") in call.params and ("page", str(page.page)) in call.params
        return asked and 0 < page.page_size <= len(page.items)
    return holds(call, fetched)


def holds(call: Call[Any], fetched: float) -> bool:
    """Tell whether what a call asks for had ended when it was fetched."""
    return fetched > call.settled_at + SETTLING_SECONDS

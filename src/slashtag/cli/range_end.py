"""How a service reads the end of a range, found out by counting the clicks of ranges around a click."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Literal, TypeVar

Reading = Literal["inclusive", "exclusive", "unclear"]
#: Returns the clicks from one second to another, both sent as they are.
Count = Callable[[datetime, datetime], Awaitable[int]]
Vote = TypeVar("Vote", bound=str)

SECOND, MINUTE, HOUR, DAY = (timedelta(seconds=n) for n in (1, 60, 3_600, 86_400))


async def first_second(count: Count, low: datetime, high: datetime) -> datetime | None:
    """Return the first second with a click from `low` to before `high`, None if there is none.

    Takes about 2 + log2(seconds between) requests.
    """
    end = high + SECOND
    most = await count(low, end)
    if most <= await count(high, end):
        return None
    while high - low > SECOND:
        middle = low + (high - low) // SECOND // 2 * SECOND
        if await count(middle, end) < most:
            high = middle
        else:
            low = middle
    return low


async def read_end(count: Count, second: datetime) -> Reading:
    """Tell how ends are read from two ways of cutting a range at a second with clicks.

    Where ends are included, the whole range is "up to the second" plus "from the next second"; where they
    are not, "up to the second" plus "from the second". The two differ in nothing but the clicks of that
    second, so other clicks do not matter, however many there are. A service that counts whole days includes
    the last second.
    """
    start, end = second - MINUTE, second + MINUTE
    whole, until = await count(start, end), await count(start, second)
    since, following = await count(second, end), await count(second + SECOND, end)
    if until + since == whole > until + following:
        return "exclusive"
    if until + since > whole == until + following:
        return "inclusive"
    return "unclear"


def agreed(votes: Sequence[Vote]) -> Vote | None:
    """Return the vote that at least two places gave and none contradicted."""
    return votes[0] if len(votes) >= 2 and len(set(votes)) == 1 else None

"""Second answers: what is asked for once more, past caches and over another connection.

`Call.again` makes the second request, `ask_until_sure` asks again what takes several requests.

Doubt                                Found by                       Asked again, and what follows
-----------------------------------  -----------------------------  ------------------------------------------
statistics are answered 404          `stats_fetcher.py`             once; the second answer stands
an answer contradicts itself         `_core/statistics_answers.py`  once, unless in vain of late; the same
a page does not fit or may be last   `_core/paging.py`              once; by its table
a page is from a journal             `listing.py`, `_journal`       once; if it differs, those are forgotten
clicks are inferred                  `_core/search/search.py`       in other company; by its table
a listing lost a tenth since a load  `dlt/_source.py`               once; the longer one, or an error
a listing may lack latest records    `dlt/_listings.py`             twice; what any has; noted if they differ
a day that is over has fewer clicks  `dlt/_incremental.py`          twice; kept as it was if one disagrees
the last days of the busiest links   `dlt/_incremental.py`          twice; noted if one is another answer
all-time clicks are fewer than hits  `dlt/_compare.py`              once; months that differ by either one
all time is not the sum of days      `dlt/_compare.py`              once, both; unproved if they still differ
a link differs from what is held     `dlt/_compare.py`              once, if fewer twice; else unproved
no link has a slashtag any more      `dlt/_audit.py`                once; unproved if it has clicks after all
"""

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")
log = logging.getLogger("slashtag")


async def ask_until_sure(
    what: object,
    ask: Callable[[bool], Awaitable[T]],
    find_doubt: Callable[[T], object],
    *,
    first: T | None = None,
    most: int = 2,
) -> list[T]:
    """Return the answers to a question: one, and others while there is a doubt about the last, up to `most`.

    `ask` is called with whether it asks again; `first` is the first answer if that is there already.
    `find_doubt` returns the doubt in words, or what is false.
    """
    answers = [await ask(False) if first is None else first]
    while len(answers) < most and (doubt := find_doubt(answers[-1])):
        log.info("%s: asked once more: %s", what, doubt)
        answers.append(await ask(True))
    return answers

"""How fresh an answer must be, and so who may give it: a cache, a pooled connection's backend, a journal.

A `Call` has one of these values. `again` is that of a second request, for an answer in doubt; a call that is
sent again after a failure goes over a new connection, past caches, too.

Freshness           Header    Connection  Journal                   Too old, which is an error
------------------  --------  ----------  ------------------------  -----------------------------------
ANY                 none      pooled      replays and keeps         nothing
PAST_CACHES         no-cache  pooled      the same, apart from ANY  from before the end of its period
ANOTHER_CONNECTION  no-cache  new         as PAST_CACHES            as PAST_CACHES
MADE_ON_REQUEST     no-cache  new         replays nothing           from before it was asked for
f.again             no-cache  new         replaces the answer to f  as f

A new connection may reach another backend; those that were pooled are closed. "Keeps" holds for calls that
are `replayable`, "its period" for those that have one. `check_age` in `response.py` tells the age of an
answer. Which answers are in doubt: `_resources/second_answers.py`.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace


class Freshness(Struct, frozen=True):
    """What an answer needs; see the table above.

    `not_before` is what it must not be older than: the end of the period that it is about, or its request.
    """

    past_caches: bool = False
    another_connection: bool = False
    is_replayed: bool = True
    not_before: Literal["period end", "request"] | None = None

    @property
    def again(self) -> Freshness:
        """The freshness of a second request."""
        return replace(self, past_caches=True, another_connection=True, is_replayed=False)

    @property
    def is_apart(self) -> bool:
        """Whether a journal keeps the answers apart from those to ANY."""
        return self.not_before is not None


ANY = Freshness()
PAST_CACHES = Freshness(past_caches=True, not_before="period end")
ANOTHER_CONNECTION = replace(PAST_CACHES, another_connection=True)
MADE_ON_REQUEST = replace(PAST_CACHES.again, not_before="request")

"""What was found about the service, and whether it answers the requests of one run.

In one run of `collect`, say (`RunHealth`)
-------------------------------------------------
a batch is refused                                 its halves are sent, up to MOST_REFUSED_IN_ROW in a row
a batch fails otherwise, and failures are told     its halves are sent, up to MOST_FAILED_IN_ROW in a row
all are refused, none was accepted yet             one batch is split at a time; MOST_REFUSED_AT_FIRST end it
slashtags fail that are requested alone            the others are sent, up to MOST_SINGLES_FAILED in a row
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from math import inf
from time import monotonic

from .._errors import (
    APIError,
    QueueTimeoutError,
    RateLimitError,
    ServerError,
    SlashtagError,
    TransportError,
    UnknownTagError,
)

#: Seconds after which a finding is forgotten: half of the ten minutes in which a session that lives for weeks
#: has to be back to normal, and thousands of requests that do not find out the same again.
KEPT = 300.0
#: Second requests in vain, in a row, after which no other second one is made.
MOST_IN_VAIN = 8

#: Statuses of a refusal: a slashtag of the batch may be at fault, or the length of the request.
REFUSED = frozenset({400, 403, 404, 413, 414})
#: Refusals, and other failures, without a success between them after which nothing is split. The 32 batches
#: that may be under way by default may each have a slashtag at fault, and half as many again until a part of
#: one is accepted. With a higher concurrency there may be more: each of these is one Failure, not split.
MOST_REFUSED_IN_ROW, MOST_FAILED_IN_ROW = 48, 2
#: Requests that are refused, before one is accepted, until no more are sent: more than the 8 that one batch
#: of 100 slashtags is taken apart into, as all of these may be wrong.
MOST_REFUSED_AT_FIRST = 12
#: Failures without a success after which slashtags are no longer requested one by one.
MOST_SINGLES_FAILED = 40

log = logging.getLogger("slashtag")


def is_refusal(error: SlashtagError) -> bool:
    """Return whether the service refused a request."""
    return isinstance(error, APIError) and error.status in REFUSED


class Finding:
    """Whether answers of the last minutes have shown something."""

    def __init__(self) -> None:
        self._until = -inf

    def __bool__(self) -> bool:
        return monotonic() < self._until

    def note(self) -> None:
        """Note that an answer has shown it."""
        self._until = monotonic() + KEPT

    def forget(self) -> None:
        """Forget it, as an answer has shown the contrary."""
        self._until = -inf


class ServiceHealth:
    """What was found about the service of a session; shared by all its views."""

    def __init__(self) -> None:
        #: By stated path: that the service answers there, or nowhere; or on the samples' path.
        self.has_stated_path: defaultdict[str, Finding] = defaultdict(Finding)
        self.uses_sample_path: defaultdict[str, Finding] = defaultdict(Finding)
        #: That all-time statistics failed, or contradict those of days.
        self.all_time_is_wrong = Finding()
        #: That the service does not count what it is asked: the halves of a batch do not add up to it.
        self.is_not_additive = Finding()
        #: That answers which contradict themselves do so a second time too.
        self.contradictions_stay = Finding()
        self._second_in_vain = 0

    def second_request(self, *, in_vain: bool) -> None:
        """Note whether a second request was in vain: its answer contradicted itself too."""
        self._second_in_vain = self._second_in_vain + 1 if in_vain else 0
        if self._second_in_vain == MOST_IN_VAIN:
            self._second_in_vain = 0
            self.contradictions_stay.note()


class RunHealth:
    """Whether the service answers the requests of one run, whose failures are reported, or raised."""

    def __init__(self, *, reports_failures: bool) -> None:
        self._reports_failures = reports_failures
        #: Failures so far, and at the last success; those of requests decided upon together count as one.
        self.failures = self._failures_at_success = 0
        #: Failures since the last success, but for refusals of a service that answers others; and refusals.
        self._singles_failed = self._refused_in_row = 0
        self.has_succeeded = False
        #: Held while a batch is taken apart before a request was accepted.
        self.taking_apart = asyncio.Lock()
        #: Requests refused for good before one was accepted, and the error of all others once too many are.
        self._refused_at_first = 0
        self._refusal: SlashtagError | None = None

    def succeeded(self) -> None:
        """Record that a request succeeded."""
        self._singles_failed = self._refused_in_row = 0
        self._failures_at_success = self.failures
        self.has_succeeded = True

    def failed_for_good(self, error: SlashtagError) -> None:
        """Record the failure of a request of which no part is sent any more."""
        # That a tag does not exist says nothing about others.
        if self.is_undecided and is_refusal(error) and not isinstance(error, UnknownTagError):
            self._refused_at_first += 1
            if self._refused_at_first == MOST_REFUSED_AT_FIRST:
                error.add_note("no request of this run was accepted, and no more were sent")
                self._refusal = error

    @property
    def is_undecided(self) -> bool:
        """Whether the service may refuse all requests of the run, for all that is known."""
        return not self.has_succeeded and self._refusal is None

    async def refusal_of_all(self) -> SlashtagError | None:
        """Return the error if the service refuses all requests; wait while that is found out."""
        if self.is_undecided and self.taking_apart.locked():
            async with self.taking_apart:
                pass
        return self._refusal

    @property
    def is_answered(self) -> bool:
        """Whether requests succeed: one has, and none has failed since."""
        return self.has_succeeded and self.failures == self._failures_at_success

    def may_split(self, error: SlashtagError, failures_before: int, *, always: bool = False) -> bool:
        """Return whether to request the parts of what failed: one slashtag may be at fault.

        A refusal is split also where failures are not reported, to find that slashtag; unless `always`, an
        undocumented answer is not. `failures_before` is `failures` when the request was decided upon. After
        too many refusals or failures in a row nothing is split, as nothing else may be answered either.
        """
        if not is_refusal(error):
            may_help = always or isinstance(error, ServerError | TransportError)
            is_limit = isinstance(error, RateLimitError | QueueTimeoutError)
            if is_limit or not may_help or not self._reports_failures or error.is_fatal:
                return False
        # Those of requests that were decided upon together count once.
        in_row = max(0, failures_before - self._failures_at_success) + 1
        self.failures = max(self.failures, self._failures_at_success + in_row)
        if not is_refusal(error):
            return in_row <= MOST_FAILED_IN_ROW
        self._refused_in_row += 1
        return self._refused_in_row <= MOST_REFUSED_IN_ROW

    def may_go_on(self, error: SlashtagError) -> bool:
        """Return whether to request more slashtags or tags one by one after one has failed."""
        # Of a service that answers others, each slashtag refused may be at fault.
        self._singles_failed += not (is_refusal(error) and self.has_succeeded)
        return self._singles_failed <= MOST_SINGLES_FAILED

"""Execution of one call: admission, attempts and retries.

The only module that uses tenacity.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Hashable
from contextlib import suppress
from logging import DEBUG, INFO, WARNING
from math import inf
from time import time
from typing import TYPE_CHECKING, Any, Self, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from .._core.call import Call
from .._core.response import answered_at, check_age, parse
from .._core.retry import (
    RetryPolicy,
    Used,
    answer_lost,
    asks_to_wait,
    backoff,
    final_error,
    gives_up,
    not_admitted,
    pause_of_503,
    retryable,
    shows_ill_health,
    tag_limit,
)
from .._core.throttle.ticket import Ticket
from .._errors import (
    APIError,
    JournalError,
    RateLimitError,
    RequestFailedError,
    SlashtagError,
    UnexpectedResponseError,
)
from .admission import Admission, NotAdmittedError
from .metrics import Metrics
from .session_log import log, tell
from .transport import Transport

if TYPE_CHECKING:
    from .._journal.journal import Journal

T = TypeVar("T")

#: A harmless request that finds out whether the service answers others than the call in question.
ONE_TAG: Call[Any] = Call(
    method="GET", path="tags", params=(("page", "1"), ("pagesize", "1")), returns=object
)

UNREADABLE_SHOWN = 100  # characters of what cannot be read
LONG_WAIT = 10.0  # seconds: a call that has waited longer is told of as a warning
QUIET = 60.0  # seconds between two such warnings, at least


class CallState(Used, kw_only=True, eq=False):
    """Progress of one call through its attempts."""

    loop: asyncio.AbstractEventLoop  # asking for the running one is slow
    last: SlashtagError | None = None  # the last failure, or 429
    answer_lost: bool = False  # the answer to a write was lost in at least one attempt
    ticket: Ticket | None = None  # of the 429s that it has met
    earliest: float = 0.0  # loop time before which it must not be sent again after a 429


class Sender(Struct, eq=False):
    """Sender of a session's calls; those of its views have other options, and share all other parts.

    `operation`: the one whose calls it sends, which take turns with those of others; None: each call is one.
    """

    transport: Transport
    admission: Admission
    metrics: Metrics
    journal: Journal | None
    timeout: float
    retry: RetryPolicy
    max_response_bytes: int
    operation: Hashable = None

    def of_operation(self) -> Self:
        """Return a sender whose calls are one operation; itself if they are already."""
        return self if self.operation is not None else replace(self, operation=object())

    async def send(self, call: Call[T]) -> T:
        """Return the data of a call, or raise its final error.

        Raises every kind of RequestFailedError, SessionClosedError, JournalError, and ConfigurationError in
        an event loop other than the session's.
        """
        state = CallState(loop=self.transport.bind())
        self.metrics.requests += 1
        if self.journal and (body := self.journal.replay(call)) is not None:
            self.metrics.replayed += 1
            # Let other tasks run, because a replay does not wait for anything.
            await asyncio.sleep(0)
            try:
                return parse(call, 200, {}, body, self.transport.scrubber, self._report_unreadable)
            except SlashtagError as damaged:
                problem = f"an answer in the journal is damaged ({damaged}): remove it to begin anew"
                raise JournalError(problem) from None
        try:
            try:
                return await self._attempt(call, state)
            except SlashtagError as failed:
                if not retryable(call, failed):
                    raise
                return await self._repeat(call, state, failed)
        except (NotAdmittedError, RateLimitError):
            error = self._given_up(state)
        except SlashtagError as failed:
            error = failed
        # Outside the handlers: it is not about what they handle.
        raise final_error(call, error, state.attempts, self.metrics.name, lost=state.answer_lost)

    async def _repeat(self, call: Call[T], state: CallState, failed: SlashtagError) -> T:
        """Send a call again after its first failure, as often as its policy allows."""
        # Imported here: most runs never need it, and it takes a third of the import time of this package.
        import tenacity

        failures = [failed]

        async def attempt() -> T:
            # The first time it fails as it has failed already, so that this failure is counted.
            if failures:
                raise failures.pop()
            return await self._attempt(call, state)

        retrying = tenacity.AsyncRetrying(
            # A positive predicate: a negative one would catch CancelledError.
            retry=tenacity.retry_if_exception(lambda error: retryable(call, error)),
            wait=lambda _: self._pause(state),
            # Asked when the wait is known.
            stop=lambda tried: gives_up(self.retry, state, state.last, tried.upcoming_sleep),
            before_sleep=lambda tried: self._note_pause(call, state, tried.upcoming_sleep),
            sleep=self.admission.sleep,
            reraise=True,
        )
        return await retrying(attempt)

    def _pause(self, state: CallState) -> float:
        """Return the seconds until a call may be sent again, or wait for its turn."""
        if isinstance(state.last, RateLimitError):
            return max(0.0, state.earliest - state.loop.time())
        # In an outage the pauses of the throttle are enough.
        is_outage = self.admission.throttle.outage.is_on
        own = 0.0 if is_outage else backoff(self.retry, state.attempts, random.random())
        return max(own, pause_of_503(state.last))

    def _note_pause(self, call: Call[Any], state: CallState, seconds: float) -> None:
        """Count and tell a pause; as a warning if the call waits for long, or no answer was good yet."""
        error, metrics, now = state.last, self.metrics, state.loop.time()
        if asks_to_wait(error):
            state.waited += seconds
            what = "waits"
        else:
            state.spent += seconds
            what = f"attempt {state.attempts} failed"
        level = INFO
        is_long = state.waited + state.spent > LONG_WAIT or metrics.last_success is None
        if is_long and now >= metrics._quiet_until:
            level, metrics._quiet_until = WARNING, now + QUIET
        text = f"{error}; {what}, again in {seconds:.2f} s"
        tell(metrics.name, level, text, attempt=state.attempts, seconds=seconds, **call.log_fields(error))

    async def _wait(self, state: CallState) -> Ticket:
        """Return the ticket of an attempt that has to wait, when it is admitted."""
        admission, policy = self.admission, self.retry
        while True:
            came = state.loop.time()
            ticket = await admission.wait(
                self.operation or state,
                inf if policy.max_wait is None else policy.max_wait - state.waited,
                policy.max_elapsed,
                state.ticket,
                is_back=state.last is not None,
            )
            state.waited += ticket.sent - came
            if not admission.throttle.outage.is_on:
                return ticket
            # The call may be at fault itself, and the answer to a write would be lost.
            self.metrics.requests += 1
            with suppress(RequestFailedError):
                await self._attempt(ONE_TAG, CallState(loop=state.loop), ticket)

    async def _attempt(self, call: Call[T], state: CallState, ticket: Ticket | None = None) -> T:
        """Send a call once, when it is admitted, and give its ticket back.

        `ticket`: that of one which is admitted already.
        """
        ticket = ticket or self.admission.enter(state.loop.time(), state.ticket) or await self._wait(state)
        metrics, transport, throttle = self.metrics, self.transport, self.admission.throttle
        # A 429 is no failure.
        is_retry = state.last is not None and not isinstance(state.last, RateLimitError)
        metrics.attempts += 1
        metrics.retries += is_retry
        state.attempts += 1
        # What is left of `max_elapsed` ends an attempt too, so that nothing takes longer than that.
        left = self.retry.max_elapsed - state.spent
        try:
            response = await transport.exchange(
                # Its connection may be at fault, or where it leads.
                replace(call, again=True) if is_retry else call,
                ticket.sent,
                left if left < self.timeout else self.timeout,
                self.max_response_bytes,
            )
            status, size = response.status, len(response.body)
            metrics.bytes_received += size
            arrived = time()
            # Not in variables, which a traceback may show.
            data = parse(
                call, status, response.headers, response.body, transport.scrubber, self._report_unreadable
            )
            now = state.loop.time()
            throttle.accepted(ticket, now)
        except SlashtagError as error:
            self._failed(call, state, ticket, error)
            raise
        except BaseException:
            throttle.cancelled(ticket, state.loop.time())
            raise
        finally:
            self.admission.pump()
        metrics.statuses[status] += 1
        metrics.last_success = arrived
        made = answered_at(response.headers)
        if made is not None and made < (metrics.oldest_answer or inf):
            metrics.oldest_answer = made
        # After these: the service has answered, though not as it is now.
        if call.made_after is not None:
            check_age(call.made_after, response.headers, arrived, transport.scrubber)
        if self.journal:
            self.journal.keep(call, data, response.body, answered_at(response.headers, arrived))
        if log.isEnabledFor(DEBUG):
            self._log_answer(call, now - ticket.sent, status=status, bytes=size)
        return data

    def _failed(self, call: Call[Any], state: CallState, ticket: Ticket, error: SlashtagError) -> None:
        """Give back the ticket of an attempt that failed, and note what that says about the service.

        Raises TagLimitError if no more tags are allowed.
        """
        now, throttle, metrics = state.loop.time(), self.admission.throttle, self.metrics
        took, state.last = now - ticket.sent, error
        if isinstance(error, RequestFailedError):
            error.method, error.path = call.method, call.path
        metrics._note_failure(error)
        if log.isEnabledFor(DEBUG):
            self._log_answer(call, took, error)
        if isinstance(error, RateLimitError):
            # It does not count as an attempt: the request itself may be fine.
            state.attempts -= 1
            state.waited += took
            state.earliest = throttle.rejected(ticket, now, error.retry_after)
            state.ticket = ticket
            if (limit := tag_limit(call, error, ticket)) is not None:
                state.attempts += ticket.rejects  # which were answers to this call
                raise limit from None
            return
        state.spent += took
        state.answer_lost |= call.method != "GET" and answer_lost(error)
        if shows_ill_health(error) and getattr(error, "repeatable", True):
            throttle.failed(ticket, now, pause_of_503(error))
        elif isinstance(error, APIError | UnexpectedResponseError):
            throttle.accepted(ticket, now)
        else:  # nothing was learnt: the session was closed, say
            throttle.cancelled(ticket, now)

    def _report_unreadable(self, what: str) -> None:
        """Count a member that is None because it cannot be read; the first as a warning, of thousands."""
        metrics, what = self.metrics, self.transport.scrubber.text(what)[:UNREADABLE_SHOWN]
        tell(metrics.name, DEBUG if metrics.unreadable else WARNING, f"cannot be read: {what}")
        metrics.unreadable += 1

    def _given_up(self, state: CallState) -> SlashtagError:
        """Return the error of a call that waits no longer."""
        throttle, now = self.admission.throttle, state.loop.time()
        seconds = max(throttle.paused_until, state.earliest, now) - now
        return not_admitted(self.retry, state.last, throttle.outage.lasted(now), seconds)

    def _log_answer(
        self, call: Call[Any], seconds: float, error: SlashtagError | None = None, **fields: float
    ) -> None:
        """Log an answer, or a failure, with a redacted target."""
        if error is None:
            what = f"{fields['status']}, {fields['bytes']} bytes"
        else:
            what = f"{getattr(error, 'status', None) or ''} {type(error).__name__}".lstrip()
        tell(
            self.metrics.name,
            DEBUG,
            f"{call.redacted()}: {what}, {seconds:.3f} s",
            duration=seconds,
            **call.log_fields(error),
            **fields,
        )

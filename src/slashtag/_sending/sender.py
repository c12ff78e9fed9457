"""Execution of one call: admission, attempts and retries.

The only module that uses tenacity.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from time import time
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace as altered

from .._core.call import Call
from .._core.queue import Flow, Place
from .._core.response import answered_at, check_age, parse
from .._core.retry import (
    RetryPolicy,
    answer_lost,
    backoff,
    final_error,
    is_in_doubt,
    pause_of_503,
    retryable,
    shows_ill_health,
    tag_limit,
)
from .._core.scrubber import HIDDEN, is_secret
from .._core.throttle.throttle import Ticket
from .._errors import APIError, QueueTimeoutError, RateLimitError, RequestFailedError, SlashtagError
from .admission import Admission, WaitTooLongError
from .health import ServiceHealth
from .metrics import Metrics
from .transport import Transport

if TYPE_CHECKING:
    from .._journal.journal import Journal

T = TypeVar("T")

#: Parameters of the harmless request that settles whether create tag is refused for a reason of its own.
ONE_TAG = (("page", "1"), ("pagesize", "1"))

#: Characters that a log shows as they are in the value of a parameter.
_SHOWN = "/:@,+ "

log = logging.getLogger("slashtag")


class CallState(Struct):
    """Progress of one call through its attempts."""

    place: Place  # in the queue
    attempts: int = 0
    earliest: float = 0.0  # loop time before which this call must not be sent again after a 429
    spent: float = 0.0  # seconds of attempts and backoff
    waited: float = 0.0  # seconds of waiting for admission
    answer_lost: bool = False  # the answer to a write was lost in at least one attempt
    ticket: Ticket | None = None  # of the 429s that it has met
    rejection: RateLimitError | None = None  # the last of these
    backoff: float = 0.0  # seconds before the next attempt
    last: SlashtagError | None = None
    on_send: Callable[[], object] | None = None  # is called before the first attempt is sent


@dataclass(eq=False, repr=False)
class Sender:
    """Sender of a session's calls; those of its views have other options, and share all other parts.

    `flow`: the operation whose calls it sends, which take turns with those of others; None: each call is an
    operation of its own.
    """

    transport: Transport
    admission: Admission
    metrics: Metrics
    journal: Journal | None
    health: ServiceHealth
    timeout: float
    retry: RetryPolicy
    max_response_bytes: int
    flow: Flow | None = None

    def of_operation(self) -> Self:
        """Return a sender whose calls are one operation; itself if they are already."""
        return self if self.flow is not None else replace(self, flow=Flow())

    async def send(self, call: Call[T], on_send: Callable[[], object] | None = None) -> T:
        """Return the data of a call, or raise its final error.

        `on_send` is called once, after all waiting, just before the request is first handed to a connection;
        if it raises, nothing is sent.
        Raises every kind of APIError, TransportError, OutcomeUnknownError and UnexpectedResponseError, and
        ConfigurationError in an event loop other than the session's.
        """
        self.transport.bind()
        self.metrics.requests += 1
        if self.journal is not None and (body := await self.journal.replay(call)) is not None:
            self.metrics.replayed += 1
            # Let other tasks run, because a replay does not wait for anything.
            await asyncio.sleep(0)
            return parse(call, 200, {}, body, self.transport.scrubber, report=self._report_unreadable)
        self.health.check(call, self.retry.max_elapsed)
        state = CallState(self.admission.place(self.flow), on_send=on_send)
        try:
            data = await self._send_past_429s(call, state)
        except SlashtagError as error:
            state.last, state.backoff = error, self._next_backoff(state, error)
        else:
            self.health.succeeded()
            return data
        if retryable(call, state.last) and not self._gives_up(state):
            try:
                return await self._retry(call, state)
            except SlashtagError as error:
                state.last = error
        failure = final_error(call, state.last, state.attempts, lost=state.answer_lost)
        if isinstance(failure, RequestFailedError):
            failure.session = self.metrics.name
        raise failure

    async def _send_past_429s(self, call: Call[T], state: CallState) -> T:
        """Send a call until it is answered with anything but a rate-limit 429."""
        loop, metrics = self.transport.loop, self.metrics
        assert loop is not None
        while True:
            began = loop.time()
            # A call that has met a 429 keeps its ticket, and always waits in its queue.
            ticket = self.admission.try_enter(state.place, began) if state.ticket is None else None
            if ticket is None:
                ticket = await self._wait(state, began)
                began = loop.time()
            # What is left of `max_elapsed` ends an attempt too, so that nothing takes longer than that.
            timeout = min(self.timeout, self.retry.max_elapsed - state.spent)
            if timeout <= 0 and state.last is not None:
                self.admission.cancelled(ticket)
                raise state.last
            metrics.attempts += 1
            state.attempts += 1
            try:
                if state.on_send is not None:
                    state.on_send()
                    state.on_send = None
                status, headers, body = await self.transport.exchange(
                    # A retry may meet another backend.
                    call if state.last is None else altered(call, again=True),
                    began,
                    timeout,
                    self.max_response_bytes,
                )
                metrics.bytes_received += len(body)
                scrubber, report = self.transport.scrubber, self._report_unreadable
                data = parse(call, status, headers, body, scrubber, time(), report)
            except RateLimitError as error:
                headers, body = {}, b""  # which may echo a secret, and which a traceback would show
                self._rejected(call, state, ticket, error, began)
                if is_in_doubt(call, ticket):
                    await self._settle(state)
            except SlashtagError as error:
                headers, body = {}, b""
                self._failed(call, state, ticket, error, began)
                raise
            except BaseException:
                self.admission.cancelled(ticket)
                raise
            else:
                seconds = loop.time() - began
                self.admission.accepted(ticket, began + seconds)
                self._answered(call, status, headers, body, data, seconds)
                return data

    def _answered(
        self, call: Call[T], status: int, headers: Mapping[str, str], body: bytes, data: T, seconds: float
    ) -> None:
        """Note an answer and keep it in the journal; raises UnexpectedResponseError if it is too old."""
        now = time()
        served, made = answered_at(headers), answered_at(headers, now)
        self.metrics._note_success(status, served, now)
        self.health.answered()
        # After these: the service has answered, though not as it is now.
        check_age(call, headers, now, self.transport.scrubber)
        if self.journal is not None:
            self.journal.keep(call, data, body, made)
        if log.isEnabledFor(logging.DEBUG):
            fields = self._fields(call, status=status, bytes=len(body), duration=seconds)
            text = "%s %s%s: %d, %d bytes, %.3f s"
            log.debug(text, *self._named(call), status, len(body), seconds, extra=fields)

    def _failed(
        self, call: Call[Any], state: CallState, ticket: Ticket, error: SlashtagError, began: float
    ) -> None:
        """Give back the ticket of an attempt that failed, and note what that says about the service."""
        now = asyncio.get_running_loop().time()
        if isinstance(error, RequestFailedError):
            error.session, error.method, error.path = self.metrics.name, call.method, call.path
        self.metrics._note_failure(error)
        state.spent += now - began
        state.answer_lost |= call.method != "GET" and answer_lost(error)
        if shows_ill_health(error):
            self.health.failed()
            self.admission.failed(ticket, now, pause_of_503(error))
        elif isinstance(error, APIError):
            self.health.answered()
            self.admission.accepted(ticket, now)
        else:  # nothing was learnt: the session was closed, say
            self.admission.cancelled(ticket)
        seconds, status = now - began, getattr(error, "status", None)
        kind = type(error).__name__ if status is None else f"{status} {type(error).__name__}"
        fields = self._fields(call, error=error, duration=seconds)
        log.debug("%s %s%s: %s, %.3f s", *self._named(call), kind, seconds, extra=fields)

    def _rejected(
        self, call: Call[Any], state: CallState, ticket: Ticket, error: RateLimitError, began: float
    ) -> None:
        """Put a call answered 429 back into the queue; raises TagLimitError if no more tags are allowed."""
        now = asyncio.get_running_loop().time()
        self.metrics._note_failure(error)
        self.health.answered()
        # A 429 does not count as an attempt: the request itself may be fine.
        state.attempts -= 1
        state.earliest = self.admission.rejected(ticket, state.place, now, error.retry_after)
        state.ticket, state.rejection = ticket, error
        self.metrics._sends_again(state.earliest, now)
        if (limit := tag_limit(call, error, ticket)) is not None:
            state.attempts += ticket.rejects  # which were answers to this call
            raise limit from None
        state.waited += now - began
        fields = self._fields(call, error=error, duration=now - began)
        method, path, _ = self._named(call)
        log.info("%s %s: 429, back to the queue", method, path, extra=fields)

    async def _settle(self, state: CallState) -> None:
        """Find out by a harmless request whether others are accepted while this one is answered 429."""
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            returns: type[Any] = object  # whatever the answer holds
            await self.send(Call(method="GET", path="tags", params=ONE_TAG, returns=returns, repeat="never"))
        except RequestFailedError as error:
            log.debug("it is not known whether other requests are accepted: %s", error)
        finally:
            state.waited += clock() - began

    def _report_unreadable(self, what: str) -> None:
        """Count a member that is None because it cannot be read; the first as a warning, of thousands."""
        log.log(logging.DEBUG if self.metrics.unreadable else logging.WARNING, "cannot be read: %s", what)
        self.metrics.unreadable += 1

    async def _wait(self, state: CallState, began: float) -> Ticket:
        max_wait = self.retry.max_wait
        left = None if max_wait is None else max_wait - state.waited
        try:
            return await self.admission.enter(state.place, left, state.earliest, state.ticket)
        except WaitTooLongError as error:
            seconds = error.seconds
        finally:
            state.waited += asyncio.get_running_loop().time() - began
        waited = "waited longer than" if seconds is None else f"would wait {seconds:.1f} s, longer than"
        text = f"given up: {waited} max_wait ({max_wait:g} s)"
        if state.rejection is None:
            reason = f"{text} in the session's queue; nothing was answered 429 to it"
            raise QueueTimeoutError(reason, retry_after=seconds, unsent=not state.attempts)
        headers = state.rejection.headers
        raise RateLimitError(text + _known_of(state), status=429, retry_after=seconds, headers=headers)

    async def _retry(self, call: Call[T], state: CallState) -> T:
        try:
            # Imported here: most runs never need it, and it takes a third of the import time of this package.
            import tenacity
        except OSError:
            # No file can be opened, so no connection either, as the last failure shows.
            assert state.last is not None
            raise state.last from None

        # It neither waits nor stops by itself. Its first attempt is the second of the call, so there is a
        # wait before it too. A wait ends when the session closes, and goes on until it is the turn of this
        # retry in the session, within `max_elapsed`. When to stop depends on other requests as well.
        retrying = tenacity.AsyncRetrying(
            # A positive predicate: a negative one would catch CancelledError.
            retry=tenacity.retry_if_exception(lambda error: retryable(call, error)),
            stop=lambda _: self._gives_up(state),
            reraise=True,
        )
        return await retrying(self._send_again, call, state)

    def _next_backoff(self, state: CallState, error: SlashtagError) -> float:
        """Return the seconds before the next attempt, which are random, or those that a 503 told."""
        return max(backoff(self.retry, state.attempts, random.random()), pause_of_503(error))

    def _gives_up(self, state: CallState) -> bool:
        """Return whether the policy allows no further attempt."""
        policy = self.retry
        out_of_time = state.spent + state.backoff >= policy.max_elapsed
        out_of_time |= policy.max_wait is not None and pause_of_503(state.last) > policy.max_wait
        out_of_time |= self.health.is_outage(policy.max_elapsed)
        return out_of_time or state.attempts >= policy.max_attempts

    async def _send_again(self, call: Call[T], state: CallState) -> T:
        """Wait for the backoff and the retry budget, then make another attempt."""
        clock, metrics = asyncio.get_running_loop().time, self.metrics
        began, seconds, last = clock(), state.backoff, state.last
        assert last is not None
        # The first is a warning if nothing has succeeded: the address or the network may be wrong.
        level = logging.INFO if metrics._retry_at or metrics.oldest_answer is not None else logging.WARNING
        fields = self._fields(call, error=last, attempt=state.attempts, seconds=seconds)
        log.log(level, "%s; attempt %d failed, again in %.2f s", last, state.attempts, seconds, extra=fields)
        metrics._sends_again(began + seconds, began)
        await self.admission.sleep_until(began + seconds)
        patience = max(0.0, self.retry.max_elapsed - state.spent - seconds)
        try:
            is_alone = await self.health.wait_to_retry(patience, last)
        finally:
            state.spent += clock() - began
        metrics.retries += 1
        try:
            data = await self._send_past_429s(call, state)
        except BaseException as error:
            self.health.retried(error, is_alone=is_alone)
            if isinstance(error, SlashtagError):
                state.last, state.backoff = error, self._next_backoff(state, error)
            raise
        self.health.retried(None, is_alone=is_alone)
        return data

    def _named(self, call: Call[Any]) -> tuple[str, str, str]:
        """Return the session's name and the method, the path, and the label or the parameters of a call."""
        name = self.metrics.name
        params = "&".join(f"{k}={HIDDEN if is_secret(k) else quote(v, safe=_SHOWN)}" for k, v in call.params)
        shown = f" ({call.label})" if call.label else f"?{params}" * bool(params)
        return f"{name}: {call.method}" if name else call.method, call.path, shown

    def _fields(
        self, call: Call[Any], error: SlashtagError | None = None, **fields: float | None
    ) -> dict[str, object]:
        """Return the fields of a log record about a call; docs/python.md has their meaning."""
        told: dict[str, object] = {"method": call.method, "path": call.path, **fields}
        if self.metrics.name:
            told["session"] = self.metrics.name
        if error is not None:
            told |= {"error": type(error).__name__}
            for name in ("status", "request_id"):
                if (value := getattr(error, name, None)) is not None:
                    told[name] = value
        return told


def _known_of(state: CallState) -> str:
    """Return what the 429s of a call have shown, to be added to the message of its error."""
    ticket, error = state.ticket, state.rejection
    if ticket is None or error is None:
        return ""
    times = f"{ticket.rejects} times" if ticket.rejects > 1 else "once"
    others = " while others were accepted, so the request itself is refused" if ticket.refusals else ""
    answered = f"; it was answered 429 {times} in {state.waited:.1f} s{others}"
    return f"{answered}; the service says: {error.message!r}"

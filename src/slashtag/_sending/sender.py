"""One call: admission, attempt, and after a first failure the retries (the only use of tenacity)."""

from __future__ import annotations

import asyncio
import logging
import random
from time import time
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import anyio
from msgspec import Struct

from .._core.call import Call
from .._core.response import parse
from .._core.retry import RetryPolicy, answer_lost, backoff, final_error, is_failure, retryable
from .._core.throttle.headers import rate_hint
from .._core.throttle.throttle import Ticket
from .._errors import (
    APIError,
    ConfigurationError,
    RateLimitError,
    RequestTimeoutError,
    ServerError,
    SessionClosedError,
    SlashtagError,
)
from .admission import Admission, PlaceTooFarError
from .metrics import Metrics
from .retry_budget import RetryBudget
from .timeouts import Watchdog
from .transport import RawResponse, Transport, closed_under_way
from .turns import Turns

if TYPE_CHECKING:
    from tenacity import RetryCallState

T = TypeVar("T")

log = logging.getLogger("slashtag")

#: Bytes from which on an answer is decoded in a turn of its own: pages that arrive together would hold up
#: the loop for as long as all of them take, and what is asked after the first would leave after the last.
LARGE = 2**16


class Keeper(Protocol):
    """Keep finished responses and give back those of an earlier run (see `_journal`)."""

    @property
    def is_open(self) -> bool: ...

    async def start(self) -> None: ...

    def check(self) -> None: ...

    def find(self, call: Call[Any]) -> bytes | None: ...

    def keep(self, call: Call[Any], data: object, body: bytes) -> bool: ...

    async def wait(self) -> None: ...


class Send(Protocol):
    """Be what resources get to send their calls with."""

    async def __call__(self, call: Call[T], /) -> T: ...


class Options(Struct, frozen=True):
    """Hold what `with_options` can change."""

    timeout: float
    retry: RetryPolicy
    max_response_bytes: int


class Shared(Struct, frozen=True):
    """Hold what all views of a session share."""

    transport: Transport
    admission: Admission
    budget: RetryBudget
    metrics: Metrics
    secrets: tuple[str, ...]
    #: Set once the session closes, to end its backoffs.
    closing: asyncio.Event
    decoding: Turns
    journal: Keeper | None = None

    def __repr__(self) -> str:
        return "<Shared ***>"


class CallState:
    """Follow one call through its attempts."""

    __slots__ = ("attempts", "last", "lost", "order", "over", "permit", "spent", "waited")

    def __init__(self, order: int) -> None:
        self.order = order
        self.attempts = 0
        self.spent = 0.0  # seconds of attempts and backoff
        self.waited = 0.0  # seconds of waiting for admission
        self.lost = False  # an answer to a write was lost on the way
        self.over = False  # no turn came within max_elapsed
        self.permit: str | None = None
        self.last: SlashtagError | None = None


class Sender:
    """Send calls of one session under one set of options."""

    def __init__(self, shared: Shared, options: Options) -> None:
        self._shared = shared
        self._options = options
        self._watchdog = Watchdog(options.timeout)
        self._admission = shared.admission
        self._metrics = shared.metrics

    async def __call__(self, call: Call[T], /) -> T:
        """Return the data of a call, or raise its final error.

        Raises every kind of APIError, TransportError, OutcomeUnknownError and UnexpectedResponseError.
        """
        self._metrics.requests += 1
        if (journal := self._shared.journal) is not None:
            if not journal.is_open:
                # Nobody entered the session: its first call opens it.
                await journal.start()
            # Before anything is sent: what a write did must not be told as an error of the journal.
            journal.check()
            body = journal.find(call)
            if body is not None:
                self._metrics.replayed += 1
                # A replay waits for nothing: without this, nobody else would have a turn.
                await asyncio.sleep(0)
                return parse(call, 200, {}, body, self._shared.secrets)
        journey = CallState(self._admission.order())
        try:
            data = await self._attempt(call, journey)
        except SlashtagError as error:
            journey.last = error
        else:
            self._shared.budget.earn()
            return data
        if retryable(call, journey.last):
            return await self._retry(call, journey)
        raise final_error(call, journey.last, journey.attempts, lost=journey.lost)

    # --- one attempt ---------------------------------------------------------------------------------

    async def _attempt(self, call: Call[T], journey: CallState) -> T:
        """Send a call until it is answered with anything but a rate-limit 429."""
        loop = running_loop()
        admission, metrics = self._admission, self._metrics
        while True:
            now = loop.time()
            ticket = admission.try_enter(now)
            if ticket is None:
                ticket = await self._wait(call, journey, now)
                now = loop.time()
            metrics.attempts += 1
            journey.attempts += 1
            try:
                answer = await self._exchange(call, loop, now)
                metrics.bytes_received += len(answer.body)
                if len(answer.body) >= LARGE and call.method == "GET":
                    await self._shared.decoding.wait()
                wall = None if answer.status == 200 else time()
                data = parse(call, answer.status, answer.headers, answer.body, self._shared.secrets, wall)
            except SlashtagError as error:
                after = loop.time()
                if not isinstance(error, RateLimitError):
                    journey.spent += after - now
                    journey.lost |= call.method != "GET" and answer_lost(error)
                    self._give_back(ticket, error, after)
                    log.debug("%s %s%s: %s", call.method, call.path, _told(call), type(error).__name__)
                    raise
                # A 429 costs none of the attempts: it says nothing about the request.
                journey.attempts -= 1
                admission.rejected(ticket, after, error.retry_after)
                log.info("%s %s: 429, back to the queue", call.method, call.path)
            except BaseException:
                admission.cancelled(ticket)
                raise
            else:
                hint = rate_hint(answer.headers)
                if hint is not None:
                    admission.hint(loop.time(), hint)
                admission.accepted(ticket, loop.time())
                journal = self._shared.journal
                if journal is not None and journal.keep(call, data, answer.body):
                    await journal.wait()
                if log.isEnabledFor(logging.DEBUG):
                    log.debug("%s %s%s: 200, %d bytes", call.method, call.path, _told(call), len(answer.body))
                return data

    async def _wait(self, call: Call[Any], journey: CallState, now: float) -> Ticket:
        max_wait = self._options.retry.max_wait
        left = None if max_wait is None else max_wait - journey.waited
        try:
            return await self._admission.enter(journey.order, left)
        except PlaceTooFarError as error:
            seconds = error.seconds
        finally:
            journey.waited += asyncio.get_running_loop().time() - now
        comes = "did not come in time" if seconds is None else f"comes in {seconds:.1f} s"
        raise RateLimitError(
            f"not sent: its turn {comes}, max_wait is {max_wait} s",
            status=429,
            method=call.method,
            path=call.path,
            attempts=journey.attempts,
            retry_after=seconds,
        )

    async def _exchange(self, call: Call[Any], loop: asyncio.AbstractEventLoop, now: float) -> RawResponse:
        watchdog = self._watchdog
        deadline = watchdog.start(loop, now)
        try:
            return await self._shared.transport.exchange(call, self._options.max_response_bytes)
        except BaseException as error:
            if not deadline.expired:
                raise
            # Taken back whatever became of it on its way up, say in a middleware of the session's owner.
            if not deadline.take_back() or not isinstance(error, asyncio.CancelledError):
                raise
        finally:
            watchdog.stop(deadline)
        if self._shared.closing.is_set():
            raise closed_under_way(call)
        raise RequestTimeoutError(
            f"no whole answer within {watchdog.seconds:g} s", method=call.method, path=call.path
        )

    def _give_back(self, ticket: Ticket, error: SlashtagError, now: float) -> None:
        if is_failure(error):
            gate = error.retry_after if isinstance(error, ServerError) and error.status == 503 else None
            self._admission.failed(ticket, now, gate)
        elif isinstance(error, APIError):
            self._admission.accepted(ticket, now)
        else:
            self._admission.cancelled(ticket)

    # --- retries -------------------------------------------------------------------------------------

    async def _retry(self, call: Call[T], journey: CallState) -> T:
        try:
            # A quarter of the time that importing this package would take, for what most runs never need.
            import tenacity
        except OSError:
            # No file can be opened, nor a connection: so that is what failed.
            assert journey.last is not None
            raise final_error(call, journey.last, journey.attempts, lost=journey.lost) from None

        policy = self._options.retry

        def delay(state: RetryCallState) -> float:
            return backoff(policy, state.attempt_number, random.random())

        def enough(state: RetryCallState) -> bool:
            out_of_time = journey.spent + state.upcoming_sleep >= policy.max_elapsed
            return journey.over or journey.attempts >= policy.max_attempts or out_of_time

        retrying = tenacity.AsyncRetrying(
            # A positive predicate over Exception only: CancelledError always wins.
            retry=tenacity.retry_if_exception(lambda error: retryable(call, error)),
            wait=delay,
            stop=enough,
            sleep=lambda seconds: self._pause(call, journey, seconds),
            reraise=True,
        )
        try:
            return await retrying(self._again, call, journey)
        except SlashtagError as error:
            failure = final_error(call, error, journey.attempts, lost=journey.lost)
        raise failure

    async def _pause(self, call: Call[Any], journey: CallState, seconds: float) -> None:
        clock = asyncio.get_running_loop().time
        began = clock()
        closing = self._shared.closing
        log.info(
            "%s %s: attempt %d failed, again in %.2f s", call.method, call.path, journey.attempts, seconds
        )
        # Not asyncio.timeout: up to Python 3.11.2 it cannot end in a task that was cancelled before.
        with anyio.move_on_after(seconds):
            await closing.wait()
        if closing.is_set():
            raise SessionClosedError("the session was closed before a retry")
        patience = self._options.retry.max_elapsed - journey.spent - seconds
        journey.permit = await self._shared.budget.take(max(0.0, patience))
        journey.over = journey.permit is None
        journey.spent += clock() - began

    async def _again(self, call: Call[T], journey: CallState) -> T:
        permit, journey.permit = journey.permit, None
        if permit is None:
            # tenacity is entered with the first failure, to wait and stop after it as after any other; and
            # left with the last one where the budget's line gave no turn in time.
            assert journey.last is not None
            raise journey.last
        self._metrics.retries += 1
        succeeded: bool | None = None
        try:
            data = await self._attempt(call, journey)
            succeeded = True
        except SlashtagError as error:
            sent = not isinstance(error, RateLimitError | SessionClosedError)
            succeeded = not is_failure(error) if sent else None
            journey.last = error
            raise
        else:
            return data
        finally:
            self._shared.budget.give_back(permit, succeeded=succeeded)

    def close(self) -> None:
        """End the attempts that are under way."""
        self._watchdog.close()


def running_loop() -> asyncio.AbstractEventLoop:
    """Return the running event loop. Raises ConfigurationError where there is none, as on trio."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise ConfigurationError(
            "no asyncio event loop is running: aiohttp, and so slashtag, cannot run on trio"
        ) from None


def _told(call: Call[Any]) -> str:
    """Tell the parameters for the log; a hundred slashtags are told as their number."""
    if call.label:
        return f" ({call.label})"
    return f"?{'&'.join(f'{k}={v}' for k, v in call.params)}" if call.params else ""

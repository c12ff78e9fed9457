"""How statistics requests are sent, with the paths of the samples as a second choice, and summed."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from .._core.call import Call, Failure
from .._core.plan import StatsRequest
from .._core.queries import Query
from .._core.selectors import Batcher, Selector, check_slashtag
from .._core.split import halves
from .._core.tally import Tally
from .._errors import (
    APIError,
    BadRequestError,
    InvalidRequestError,
    NotFoundError,
    SlashtagError,
    UnexpectedResponseError,
    is_fatal,
)
from .._models import ShortUrl, Statistics
from .._sending.sender import Send
from .listing import Progress

R = TypeVar("R", bound=Statistics)

Key = str | ShortUrl
Keys = Iterable[Key] | AsyncIterable[Key]
OnError = Callable[[Failure], object]

log = logging.getLogger("slashtag")


class Memory:
    """Remember what answers have shown of the service; shared by all views of a session."""

    def __init__(self) -> None:
        #: Whether a question is answered on the path of the samples, by its stated path.
        self.samples: dict[str, bool] = {}
        #: Whether an answer contradicted itself.
        self.doubted = False


class StatsSender:
    """Send statistics requests.

    The document states /stats/yearly and /stats/alltime but shows samples against /stats: on a 404 the
    samples' path is tried once and the outcome remembered (Statistics for a year, for all time).
    """

    def __init__(self, send: Send, memory: Memory) -> None:
        self._send = send
        self._memory = memory

    def doubt(self, call: Call[Any], problem: str) -> None:
        """Log an answer that contradicts itself: the first as a warning, more of them for debugging.

        A service that does so once does so thousands of times; `reconciles` tells of each.
        """
        level = logging.DEBUG if self._memory.doubted else logging.WARNING
        self._memory.doubted = True
        log.log(level, "%s: the answer contradicts itself: %s", call.label, problem)

    async def __call__(self, query: Query[Any], call: Call[Any]) -> Any:
        """Return the answer; an error is given a note that says which batch and window it was."""
        try:
            if query.sample_path is None:
                return await self._send(call)
            return await self._ask(query.sample_path, call)
        except SlashtagError as error:
            error.add_note(f"while asking for {call.label}")
            raise

    async def _ask(self, sample_path: str, call: Call[Any]) -> Any:
        samples, sampled = self._memory.samples, replace(call, path=sample_path)
        if samples.get(call.path):
            return await self._send(sampled)
        try:
            return await self._send(call)
        except (NotFoundError, UnexpectedResponseError) as error:
            # A router that does not know the path may answer without the service's envelope.
            if error.status != 404 or samples.get(call.path) is False:
                raise
            missing = error
        try:
            answer = await self._send(sampled)
        except (NotFoundError, UnexpectedResponseError) as error:
            if error.status != 404:
                raise
            samples[call.path] = False
            raise missing from None
        except BadRequestError as error:
            # /stats does not read these questions here, so it is the 404 that counts (Errors).
            reads = "date is required" not in error.message.lower()
            samples[call.path] = reads
            if reads:
                raise
            raise missing from None
        samples[call.path] = True
        return answer


class ProgressReporter:
    """Tell whoever asks how far it is, and what failed where `on_error` lets the rest go on."""

    def __init__(
        self, query: Query[Any], total: int | None, progress: Progress | None, on_error: OnError | None
    ) -> None:
        self._query = query
        self._total = total
        self._done = 0
        self._progress = progress
        self._on_error = on_error

    def done(self) -> None:
        """Count one that was to be done."""
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, self._total)

    def expect(self, more: int) -> None:
        """Take note of more to be done."""
        if self._total is not None:
            self._total += more

    def survives(self, error: SlashtagError) -> bool:
        """Tell whether the rest goes on after an error."""
        return self._on_error is not None and not is_fatal(error)

    def tell(self, call: Call[Any], error: SlashtagError) -> bool:
        """Tell a failure; False where the rest does not go on after it: it is to be raised."""
        if self._on_error is None or is_fatal(error):
            return False
        self._on_error(Failure(call, error))
        return True

    def refuse(self, key: object, error: InvalidRequestError) -> None:
        """Tell a key that cannot be asked for, or raise."""
        selector = Selector(keys=(key if isinstance(key, str) else getattr(key, "slashtag", ""),))
        params, label = selector.params(), str(selector)
        unsent = Call(method="GET", path=self._query.path, params=params, returns=object, label=label)
        if not self.tell(unsent, error):
            raise error


class Collector(Generic[R]):
    """Ask and sum: one answer after the other goes into the tally, none is kept."""

    def __init__(
        self, asker: StatsSender, query: Query[R], tally: Tally[Any, R], feedback: ProgressReporter
    ) -> None:
        self._asker = asker
        self._query = query
        self._tally = tally
        self._feedback = feedback
        self._suspects: set[str] = set()

    async def work(self, ask: StatsRequest) -> Sequence[StatsRequest] | None:
        """Ask once; return the smaller questions into which a refused one is cut."""
        call = self._query.call(ask.selector, ask.piece)
        try:
            answer = await self._asker(self._query, call)
        except SlashtagError as error:
            smaller = self._smaller(ask, error)
            if smaller:
                self._feedback.expect(len(smaller) - 1)
                return smaller
            if not self._feedback.tell(call, error):
                raise
            if isinstance(error, BadRequestError):
                self._suspects.update(ask.selector.keys)
        else:
            problem = self._tally.add(answer, ask.piece.window)
            if problem:
                self._asker.doubt(call, problem)
        self._feedback.done()
        return None

    def _smaller(self, ask: StatsRequest, error: SlashtagError) -> list[StatsRequest] | None:
        """Cut a question that was refused for its keys (400, where failures are told) or its length (414)."""
        keys = ask.selector.keys
        too_long = isinstance(error, APIError) and error.status == 414
        refused = isinstance(error, BadRequestError) and self._feedback.survives(error)
        if len(keys) < 2 or not (too_long or refused):
            return None
        parts: Sequence[Sequence[str]] = halves(keys)
        if refused and not self._suspects.isdisjoint(keys):
            # Keys that were refused in another window are the first to be set apart.
            rest = [key for key in keys if key not in self._suspects]
            parts = [[key] for key in keys if key in self._suspects] + ([rest] if rest else [])
        return [StatsRequest(Selector(keys=tuple(part)), ask.piece) for part in parts]

    def result(self) -> R:
        """Return the sum."""
        return self._tally.result()


class AsyncBatches(AsyncIterator[Selector]):
    """Iterate over the batches of an asynchronous iterable of slashtags, as they fill.

    What cannot be asked for goes to `refuse`, since it is seen only after others were sent.
    """

    def __init__(
        self,
        keys: AsyncIterable[Key],
        room: int,
        refuse: Callable[[object, InvalidRequestError], object],
    ) -> None:
        self._keys = aiter(keys)
        self._batcher = Batcher(room)
        self._refuse = refuse

    async def __anext__(self) -> Selector:
        async for item in self._keys:
            try:
                batch = self._batcher.add(check_slashtag(item))
            except InvalidRequestError as error:
                self._refuse(item, error)
                continue
            if batch:
                return Selector(keys=batch)
        rest = self._batcher.rest()
        if rest is None:
            raise StopAsyncIteration
        return Selector(keys=rest)

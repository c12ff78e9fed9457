"""How statistics are requested: the samples' path on a 404, and answers that contradict themselves."""

import logging
from typing import Any

from msgspec.structs import replace

from .._core.call import Call
from .._core.windows import Window
from .._errors import BadRequestError, NotFoundError, SlashtagError, UnexpectedResponseError
from .._sending.sender import Sender

#: Paths in the document's sample requests, where they differ from the stated ones.
SAMPLE_PATHS = {"stats/yearly": "stats", "stats/alltime": "stats"}

log = logging.getLogger("slashtag")


class StatsFetcher:
    """Sender of the statistics requests of one operation; `fresh` ones pass caches.

    The document states /stats/yearly and /stats/alltime but shows samples against /stats: on a 404 the
    samples' path is tried once, and which one answers is noted in `paths`, for the whole session. See
    docs/service.md, Statistics for a year; Statistics for all time.
    """

    def __init__(self, sender: Sender, paths: dict[str, str], *, fresh: bool = False) -> None:
        self._sender, self._paths, self._fresh = sender, paths, fresh

    async def fetch(self, call: Call[Any], window: Window | None, *, is_result: bool = True) -> Any:
        """Return the statistics of an answer; an error gets a note that names the batch and window.

        An answer that contradicts itself (`_core/statistics_answers.py`) is counted and logged, provided that
        it `is_result`: that it goes into what the library's caller gets.
        """
        try:
            answer = await self._send(replace(call, again=True) if self._fresh else call)
        except SlashtagError as error:
            error.add_note(f"while requesting {call.label}")
            raise
        stats, problem = answer.to_statistics(window)
        if not stats.reconciles and is_result:
            metrics = self._sender.metrics
            # The first as a warning. There may be thousands of them.
            log.log(
                logging.DEBUG if metrics.inconsistent else logging.WARNING,
                "%s: the answer contradicts itself: %s",
                call.label,
                problem,
            )
            metrics.inconsistent += 1
        return stats

    async def _send(self, call: Call[Any]) -> Any:
        if call.path not in SAMPLE_PATHS:
            return await self._sender.send(call)
        if call.path in self._paths:
            return await self._sender.send(replace(call, path=self._paths[call.path]))
        stated, sampled = call.path, SAMPLE_PATHS[call.path]
        try:
            answer = await self._sender.send(call)
            self._paths[stated] = stated
            return answer
        except (NotFoundError, UnexpectedResponseError) as error:
            # For an unknown path, a router may answer without the service's envelope. Another call may have
            # found the stated path meanwhile.
            if error.status != 404 or self._paths.get(stated) == stated:
                raise
            missing = error
        try:
            answer = await self._sender.send(replace(call, path=sampled))
        except (NotFoundError, UnexpectedResponseError, BadRequestError) as error:
            # /stats may exist without accepting these queries. See docs/service.md, Errors.
            is_missing = error.status == 404 or "date is required" in error.message.lower()
            self._paths[stated] = stated if is_missing else sampled
            raise (missing if is_missing else error) from None
        self._paths[stated] = sampled
        return answer

"""How statistics are requested: once more, past caches, where an answer contradicts itself or is a 404."""

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
    """Sender of statistics requests, which has their answers checked.

    The document states /stats/yearly and /stats/alltime but shows samples against /stats: on a 404 the
    samples' path is tried once and the outcome remembered for some minutes. See docs/service.md, Statistics
    for a year; Statistics for all time.

    An answer that no statistics request can have is requested once more, since a cache or a load balancer may
    have sent it: a 404, or one that contradicts itself or is about other days.
    """

    def __init__(self, sender: Sender, *, fresh: bool = False) -> None:
        self._sender, self._fresh = sender, fresh
        #: What is known of the service; of the requests of one run that is `RunState.health`.
        self.metrics, self.service = sender.metrics, sender.health

    async def fetch(self, call: Call[Any], window: Window | None = None, *, is_result: bool = True) -> Any:
        """Return the statistics of an answer; an error gets a note that names the batch and window.

        `_core/statistics_answers.py` says what contradicts itself. If the second answer does too, it is
        counted and logged, provided that it `is_result`: that it goes into what the library's caller gets.
        """
        service = self.service
        call = replace(call, again=True) if self._fresh else call
        try:
            stats, problem = (await self._request(call)).to_statistics(window)
            if problem is not None and not service.contradictions_stay:
                log.info("%s: inconsistent answer, requested once more: %s", call.label, problem)
                answer = await self._request(replace(call, again=True))
                stats, problem = answer.to_statistics(window)
                service.second_request(in_vain=problem is not None)
        except SlashtagError as error:
            error.add_note(f"while requesting {call.label}")
            raise
        if not stats.reconciles and is_result:
            # The first as a warning. There may be thousands of them.
            level = logging.DEBUG if self.metrics.inconsistent else logging.WARNING
            self.metrics.inconsistent += 1
            log.log(level, "%s: inconsistent answer: %s", call.label, problem)
        return stats

    async def _request(self, call: Call[Any]) -> Any:
        stated, sampled = call.path, SAMPLE_PATHS.get(call.path)
        if sampled is None:
            return await self._confirm_404(call)
        service = self.service
        has_stated, uses_sample = service.has_stated_path[stated], service.uses_sample_path[stated]
        if uses_sample:
            return await self._confirm_404(replace(call, path=sampled))
        try:
            answer = await self._confirm_404(call)
            has_stated.note()
            return answer
        except (NotFoundError, UnexpectedResponseError) as error:
            # For an unknown path, a router may answer without the service's envelope. Another call may have
            # found the path of the samples meanwhile.
            if error.status != 404 or has_stated:
                raise
            missing = error
        try:
            answer = await self._sender.send(replace(call, path=sampled))
        except (NotFoundError, UnexpectedResponseError, BadRequestError) as error:
            # /stats may exist without accepting these queries. See docs/service.md, Errors.
            is_missing = error.status == 404 or "date is required" in error.message.lower()
            if is_missing:
                has_stated.note()
                raise missing from None
            if isinstance(error, BadRequestError):
                uses_sample.note()
            raise
        uses_sample.note()
        return answer

    async def _confirm_404(self, call: Call[Any]) -> Any:
        """Send a call, and once more if the answer is a 404: it is undocumented for statistics."""
        try:
            return await self._sender.send(call)
        except NotFoundError as error:
            log.info("%s: requested once more: %s", call.label, error)
            return await self._sender.send(replace(call, again=True))

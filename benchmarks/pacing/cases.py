"""The rows of the goals table: a server, the size of the job, the least utilisation and the most waste."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from random import Random

from .servers import (
    Errors,
    FixedWindow,
    InFlight,
    Make,
    Poison,
    Server,
    Shared,
    SlidingWindow,
    Strays,
    TokenBucket,
)
from .simulate import CONCURRENCY, MEAN

SECONDS = 60.0  # oracle time that a job is made for, at least
FULL = CONCURRENCY / MEAN * SECONDS  # requests of a job without a limit


@dataclass(frozen=True)
class Case:
    """One server of one row; its 429s are bounded by share x requests + fixed."""

    row: str
    label: str
    make: Make
    requests: int
    utilisation: float
    share: float = 0.05
    fixed: float = 30
    ahead: int = 0  # of a listing; 0: as many requests wait as can be sent
    scale: float = 1.0  # of the latency

    @property
    def most_rejects(self) -> float:
        """Return the most 429s that the goal allows."""
        return self.share * self.requests + self.fixed

    def server(self, seed: int) -> Server:
        """Build the server; the same seed builds the same one."""
        return self.make(Random(f"{seed} {self.label}"))


def cases() -> list[Case]:
    """Return every server of the table, in its order."""
    return [*_unlimited(), *_buckets(), *_windows(), *_others(), *_classes(), *_few(), *_refused()]


def _job(requests: float) -> int:
    return max(int(requests), 1000)


def _unlimited() -> Iterator[Case]:
    row = "no limit, or latency that grows"
    yield Case(row, "no limit", Server, _job(FULL), 0.98, 0, 0)
    yield Case(row, "latency x (1 + load / 20)", partial(Server, load=20), _job(FULL / 4.2), 0.98, 0, 0)


def _buckets() -> Iterator[Case]:
    plain = [(5, 10), (10, 50), (20, 10), (20, 20), (50, 20), (100, 10), (100, 20), (200, 10), (200, 50)]
    told = [(5, 10), (20, 10), (50, 20), (100, 20), (200, 50)]
    for row, goal, retry_after, sizes in (
        ("token bucket 5-200/s", 0.95, None, plain),
        ("token bucket 500/s", 0.88, None, [(500, 10), (500, 50), (500, 200)]),
        ("token bucket, Retry-After 1 s", 0.85, 1.0, told),
    ):
        for rate, burst in sizes:
            make = partial(TokenBucket, rate=rate, burst=burst, retry_after=retry_after)
            # A call back after a 429 is the next of its operation: at a low rate some meet the limit twice.
            share = 0.09 if rate < 10 else 0.05
            yield Case(row, f"{rate}/s, burst {burst}", make, _job(rate * SECONDS + burst), goal, share)
    # Many requests are sent in the time that the limit takes to let the next one pass.
    for rate, burst in ((20, 5), (60, 5), (60, 30), (200, 10), (200, 100)):
        make = partial(TokenBucket, rate=rate, burst=burst)
        for requests in (240, 2000):
            label = f"{rate}/s, burst {burst}" + ", few" * (requests < 1000)
            least = 0.45 if requests < 1000 else 0.65  # it takes seconds to learn the rate
            yield Case("round trips of 1 ms", label, make, requests, least, 0, 90, scale=0.015)


def _windows() -> Iterator[Case]:
    for width, goal, limits in ((1, 0.85, (10, 30, 100, 300)), (60, 0.97, (100, 300, 1000, 3000))):
        for kind, name in ((FixedWindow, "fixed"), (SlidingWindow, "sliding")):
            for limit in limits:
                for told in (None, math.ceil):
                    label = f"{name}, {limit}/{width} s" + ", Retry-After" * (told is not None)
                    make = partial(kind, limit=limit, width=width, told=told)
                    row = f"window of {width} s"
                    if width == 1:
                        yield Case(row, label, make, _job(limit * SECONDS), goal)
                    else:
                        # The last window is half full: a place that is lost is not a window that is lost.
                        requests = max(1050, 11 * limit // 2)
                        yield Case(row, label, make, requests, goal, 0, 25 * -(-requests // limit))


def _others() -> Iterator[Case]:
    for most in (4, 8, 16, 32):
        requests = _job(most / MEAN * SECONDS)
        yield Case("at most K in flight", f"K = {most}", partial(InFlight, most=most), requests, 0.88)
    for before, after, burst in (
        *((40, 20, 10), (20, 40, 10), (100, 50, 20)),
        *((50, 100, 20), (200, 100, 20), (100, 200, 20)),
    ):
        make = partial(TokenBucket, rate=before, burst=burst, change=(SECONDS / 2, after))
        requests = _job((before + after) / 2 * SECONDS + burst)
        label = f"{before}/s, then {after}/s, burst {burst}"
        yield Case("the limit halves or doubles", label, make, requests, 0.93)
    row = "2 % of answers are 500s"
    for rate, burst in ((20, 10), (50, 20), (100, 20)):
        make = partial(_with_errors, rate=rate, burst=burst)
        yield Case(row, f"{rate}/s, burst {burst}", make, _job(rate * SECONDS + burst), 0.94)
    yield Case(row, "no limit", lambda rng: Errors(Server(rng), 0.02), _job(FULL), 0.94)
    for share, told in ((0.01, 1.0), (0.05, None), (0.1, None), (0.1, 2.0)):
        label = f"{share:.0%} strays" + (f", Retry-After {told:g}" if told else "")
        make = partial(_with_strays, share=share, told=told)
        yield Case("429s at any pace", label, make, _job(FULL), 0.7, share / (1 - share) + 0.015)


def _classes() -> Iterator[Case]:
    for kind, limit, width, told in (
        *((FixedWindow, 300, 5, None), (FixedWindow, 25, 5, math.floor), (FixedWindow, 34, 2, None)),
        *(
            (SlidingWindow, 62, 2, None),
            (SlidingWindow, 630, 7, math.ceil),
            (FixedWindow, 900, 10, math.ceil),
        ),
    ):
        label = f"{kind.__name__} {limit}/{width} s" + (f", {told.__name__}" if told else "")
        make = partial(kind, limit=limit, width=width, told=told)
        yield Case("window of 2-10 s", label, make, _job(limit / width * SECONDS), 0.8, 0.05)
    # The goal is 0.85 of what the best constant pace reaches with 1.5 % of 429s.
    for rate, burst, possible in (
        (100, 3, 0.72),
        (100, 5, 0.91),
        (300, 3, 0.62),
        (300, 5, 0.85),
        (600, 5, 0.78),
    ):
        make = partial(TokenBucket, rate=rate, burst=burst)
        label = f"{rate}/s, burst {burst}"
        yield Case("token bucket, small burst", label, make, _job(rate * SECONDS), 0.85 * possible, 0.02)
    for most in (4, 8, 22, 44):
        make = partial(InFlight, most=most, retry_after=1.0)
        label = f"K = {most}, Retry-After 1"
        yield Case("at most K in flight, Retry-After", label, make, _job(most / MEAN * SECONDS), 0.8)
    for rate, burst, size, every in ((20, 10, 12, 2), (50, 5, 100, 10), (100, 20, 200, 5), (200, 5, 250, 5)):
        make = partial(_shared, rate=rate, burst=burst, size=size, every=every)
        label = f"{rate}/s, another's {size}/{every} s"
        yield Case("shared with bursts, Retry-After", label, make, _job(rate * SECONDS), 1 / 1.5, 0.05)


def _few() -> Iterator[Case]:
    """Yield listings that read a few pages ahead: often no request waits, or all wait after a 429.

    A page that waits for its Retry-After lets all others wait, so that the goal is lower with one.
    """
    goal = {None: 0.85, 1.0: 0.7}
    sizes: list[tuple[int, float, float]] = [(1, 5, 1.0), (1, 20, 0.05)]
    sizes += [(4, 5, 1.0), (4, 20, 1.0), (8, 5, 1.0), (8, 20, 1.0), (8, 40, 1.0), (8, 40, 0.05)]
    sizes += [(16, 20, 1.0), (16, 40, 1.0), (16, 100, 1.0), (16, 100, 0.05)]
    for ahead, rate, scale in sizes:
        for told in (None, 1.0):
            make = partial(TokenBucket, rate=rate, burst=10, retry_after=told)
            label = f"{ahead} ahead, {rate:g}/s" + ", near" * (scale < 1) + ", told" * (told is not None)
            yield Case("few calls", label, make, _job(rate * SECONDS), goal[told], 0.05, 30, ahead, scale)
    for kind, limit, width in ((FixedWindow, 30, 1), (SlidingWindow, 30, 1), (FixedWindow, 300, 60)):
        for rounding in (None, math.ceil):
            make = partial(kind, limit=limit, width=width, told=rounding)
            label = f"8 ahead, {kind.__name__} {limit}/{width} s" + ", told" * (rounding is not None)
            least = goal[1.0 if rounding else None]
            yield Case("few calls", label, make, _job(limit / width * SECONDS), least, 0.05, 30, 8)


def _refused() -> Iterator[Case]:
    """Yield servers that answer some requests always 429; the time is that of all others."""
    inner: list[tuple[str, Make, float]] = [("no limit", Server, 300)]
    for rate, burst, told in ((5, 10, None), (20, 10, None), (50, 20, 1.0), (100, 20, None), (500, 50, None)):
        make = partial(TokenBucket, rate=rate, burst=burst, retry_after=told)
        inner.append((f"{rate}/s", make, rate))
    inner += [
        ("fixed 30/1 s", partial(FixedWindow, limit=30, width=1), 30),
        ("sliding 100/1 s", partial(SlidingWindow, limit=100, width=1, told=math.ceil), 100),
        ("fixed 300/60 s", partial(FixedWindow, limit=300, width=60), 27),
        ("sliding 1000/60 s", partial(SlidingWindow, limit=1000, width=60, told=math.ceil), 90),
        ("K = 8", partial(InFlight, most=8), 8 / MEAN),
    ]
    for name, make, rate in inner:
        requests = _job(rate * SECONDS)
        for share in (0.01, 0.05):
            for seconds in (None, 1.0, 60.0):
                label = f"{name}, {share:.0%}" + (f", Retry-After {seconds:g}" if seconds else "")
                poison = partial(_with_poison, make=make, share=share, told=seconds)
                yield Case("requests always answered 429", label, poison, requests, 1 / 1.5, math.inf)
        apart = partial(_with_poison, make=make, share=0.1, told=None, rate=1.0)
        label = f"{name}, an endpoint at 1/s"
        yield Case("one endpoint limited apart", label, apart, requests, 1 / 1.5, math.inf)


def _with_poison(rng: Random, make: Make, share: float, told: float | None, rate: float = 0.0) -> Server:
    return Poison(make(rng), share, told, rate)


def _with_strays(rng: Random, share: float, told: float | None) -> Server:
    return Strays(Server(rng), share, told)


def _shared(rng: Random, rate: float, burst: int, size: int, every: float) -> Server:
    return Shared(TokenBucket(rng, rate, burst, 1.0), size, every)


def _with_errors(rng: Random, rate: float, burst: int) -> Server:
    return Errors(TokenBucket(rng, rate, burst), 0.02)

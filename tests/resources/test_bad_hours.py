"""A session that lives for weeks survives bad hours: minutes after each it is as it was before."""

from __future__ import annotations

import asyncio

from slashtag import RequestTimeoutError, SlashtagError, TransportError
from tests.support.virtual_time import OK, TOO_MANY, Answer, Service, down, in_virtual_time, job, now, sender

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
#: What the service does in each of the bad hours.
FAULTS: list[Answer] = [
    down(500),
    down(503, 600),
    TransportError("refused", unsent=True),
    RequestTimeoutError("no answer"),
    TOO_MANY,
    (400, "No.", None),
]


@in_virtual_time
async def test_a_week_with_bad_hours_is_normal_ten_minutes_after_each() -> None:
    fault: Answer = OK
    #: How many requests in a row are answered well before one fails, as an accident.
    accident = 0
    service = Service(lambda _: fault if not accident or len(service.sent) % accident else down(502))

    sends = sender(service)

    async def hour() -> tuple[float, int, list[SlashtagError]]:
        began, before = now(), len(service.sent)
        found = await job(sends, [str(n) for n in range(100)])
        return now() - began, len(service.sent) - before, [error for error in found.values() if error]

    normal, requests, _ = await hour()
    normal, requests, failed = await hour()
    assert (requests, failed) == (100, [])
    for fault in FAULTS:
        until = now() + HOUR / 2
        while now() < until:
            _, _, failed = await hour()
            assert failed
            await asyncio.sleep(MINUTE)
        fault, accident = OK, 0
        await asyncio.sleep(10 * MINUTE)
        await hour()
        for every in (0, 30):
            accident = every
            took, sent, failed = await hour()
            assert not failed
            assert sent <= requests + 6
            assert took <= normal + 1
        accident = 0
        await asyncio.sleep(DAY)

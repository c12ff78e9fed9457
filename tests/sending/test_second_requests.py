"""A second request goes past caches and over a connection of its own."""

from __future__ import annotations

from msgspec.structs import replace

from slashtag._core.call import Call

from ..support.sending import connect
from ..support.wire import Wire, ok

FIRST = Call(method="GET", path="stats", params=(("url_keys", "spring"),), returns=object)


async def test_a_second_request_goes_past_caches_over_a_new_connection() -> None:
    async with Wire(ok({})) as wire, connect(wire) as session:
        for again in (False, True):
            await session._sender.send(replace(FIRST, again=again))
    first, second = wire.requests
    assert [each.headers.get("cache-control") for each in wire.requests] == [None, "no-cache"]
    assert second.connection != first.connection

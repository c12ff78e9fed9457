"""Asyncio client for a link-shortening account: exact click statistics at any size, at full speed.

async with AsyncSession(base_url, apikey=..., apisecret=...) as session:
    async for url in session.urls.list():
        ...
    stats = await session.stats.collect(DateRange("2024-01-01", "2024-12-31"), keys=slashtags)
"""

import typing as _typing
from importlib import import_module as _import_module

from ._version import __version__ as __version__

if _typing.TYPE_CHECKING:
    from ._public import *  # noqa: F403
else:
    # Names come at their first use: a command's --help and a foreign test run need none of aiohttp.
    def __getattr__(name: str) -> object:
        if name.startswith("_") and name != "__all__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        public = _import_module("._public", __name__)
        globals().update({each: getattr(public, each) for each in ("__all__", *public.__all__)})
        try:
            return globals()[name]
        except KeyError:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None

    def __dir__() -> list[str]:
        return sorted(__getattr__("__all__"))

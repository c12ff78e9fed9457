"""The account that the examples use: the one that the environment names, or else a sandbox."""

import os
from collections.abc import Generator
from contextlib import contextmanager

from slashtag.sandbox import Sandbox


@contextmanager
def account(rate: float | None = None) -> Generator[None, None, None]:
    """Make `AsyncSession()` find an account; `rate` is the limit of a sandbox in requests/s."""
    if "SLASHTAG_BASE_URL" in os.environ:
        yield
        return
    with Sandbox(urls=300, clicks=5_000, rate=rate) as box:
        os.environ["SLASHTAG_BASE_URL"] = box.base_url
        os.environ["SLASHTAG_APIKEY"] = box.apikey
        os.environ["SLASHTAG_APISECRET"] = box.apisecret
        yield

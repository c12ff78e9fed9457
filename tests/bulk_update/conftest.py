"""An account whose links are changed."""

from __future__ import annotations

import pytest

from slashtag.sandbox import Sandbox


@pytest.fixture
def twenty_links(box: Sandbox) -> None:
    """Have the links a0 to a19."""
    for n in range(20):
        box.add_url(f"a{n}", destination=f"https://www.example/{n}", redirect_code=302)


def puts(box: Sandbox) -> int:
    """The number of changes that arrived."""
    return sum(arrival.method == "PUT" for arrival in box.requests)

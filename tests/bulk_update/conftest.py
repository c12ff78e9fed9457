"""An account whose links are changed."""

from __future__ import annotations

import pytest

from slashtag.sandbox import Sandbox


@pytest.fixture
def box(box: Sandbox) -> Sandbox:
    """Have the links a0 to a19, of which a2 has a tag."""
    box.add_tag("spring")
    for n in range(20):
        tag = "spring" if n == 2 else None
        box.add_url(f"a{n}", destination=f"https://www.example/{n}", redirect_code=302, tag=tag)
    return box


def puts(box: Sandbox) -> int:
    """The number of changes that arrived."""
    return sum(arrival.method == "PUT" for arrival in box.requests)

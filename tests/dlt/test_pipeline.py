"""Places of destinations, as messages name them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from slashtag.dlt._pipeline import _place_of


@pytest.mark.parametrize(
    "credentials",
    ["postgresql://u:secret@h/db", "postgresql://u:se?cr@et/secret@h/db?a=b", "host=h password=secret"],
)
def test_a_place_has_no_password(credentials: str) -> None:
    destination: Any = SimpleNamespace(
        config_params={"credentials": credentials}, destination_name="postgres"
    )
    place = _place_of(SimpleNamespace(destination=destination))  # type: ignore[arg-type]
    assert "secret" not in place
    assert "se?cr" not in place

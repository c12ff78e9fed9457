"""An account that is made once and served often."""

from __future__ import annotations

import pytest

from tests.resources.accounts import Account


@pytest.fixture(scope="session")
def account(tmp_path_factory: pytest.TempPathFactory) -> Account:
    return Account(tmp_path_factory.mktemp("account") / "account.sqlite")

"""What the file of a journal holds, also while its session runs or after it was killed."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from slashtag._core.call import Call
from slashtag._journal.journal import request_name
from slashtag.sandbox import Arrival


def committed(journal: Path) -> set[bytes]:
    """Read the names of the requests that a journal holds, from a copy, as reading it would repair it."""
    with TemporaryDirectory() as scratch:
        for part in journal.parent.glob(f"{journal.name}*"):
            shutil.copy(part, scratch)
        try:
            with closing(sqlite3.connect(Path(scratch) / journal.name)) as file:
                return {request for (request,) in file.execute("SELECT request FROM answer")}
        except sqlite3.OperationalError:
            return set()  # killed before it had a table


def asked(arrivals: Iterable[Arrival], links: Iterable[Any]) -> set[bytes]:
    """Name what arrived, as the journal does that was told of these links of the account."""
    ids = {link.slashtag: (link.id,) for link in links}
    calls = (
        Call(
            method="GET",
            path=arrival.path.removeprefix("/api/v1/"),
            params=tuple(arrival.query.items()),
            returns=object,
            link_ids=tuple(ids[key] for key in arrival.query.get("url_keys", "").split(",") if key),
        )
        for arrival in arrivals
    )
    return {request_name(call, {}) for call in calls}

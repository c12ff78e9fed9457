"""Changes to links: validation, requests, and conflicts between changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from .._errors import InvalidRequestError, SlashtagError
from .call import (
    MAX_PASSWORD,
    MAX_SLASHTAG,
    REDIRECT_CODES,
    Call,
    check_int,
    check_text,
    path_segment,
)
from .payloads import RowsUpdated


class Change(Struct, frozen=True):
    """Change to the link with this slashtag (str) or id (int); members that are None are not sent.

    `call` checks the limits of the service. See docs/service.md, Update a short URL.
    """

    key: str | int
    destination: str | None = None
    slashtag: str | None = None
    redirect_code: int | None = None
    password: str | None = None
    domain_id: int | None = None

    def __repr__(self) -> str:
        members = {name: getattr(self, name) for name in self.__struct_fields__[1:]}
        shown = [
            f"{name}={'***' if name == 'password' else repr(value)}"
            for name, value in members.items()
            if value is not None
        ]
        return f"Change({', '.join([repr(self.key), *shown])})"

    def __rich_repr__(self) -> Any:
        yield repr(self)

    def call(self, *, once: bool = False) -> Call[RowsUpdated]:
        """Return the request; raises InvalidRequestError, which never shows the password.

        With `once` it is repeated only if nothing was sent, or after a 429.
        """
        members: dict[str, object] = {}
        if self.destination is not None:
            members["destination"] = check_text("destination", self.destination, None)
        if self.slashtag is not None:
            members["slashtag"] = check_text("slashtag", self.slashtag, MAX_SLASHTAG)
        if self.redirect_code is not None:
            # 302.0 equals a code, but the service takes integers.
            if not isinstance(self.redirect_code, int) or self.redirect_code not in REDIRECT_CODES:
                raise InvalidRequestError(
                    f"redirect_code must be one of {REDIRECT_CODES}, not {self.redirect_code!r}"
                )
            members["redirect_code"] = int(self.redirect_code)
        if self.password is not None:
            members["password"] = check_text("password", self.password, MAX_PASSWORD, empty=True)
        if self.domain_id is not None:
            members["domain_id"] = check_int("domain_id", self.domain_id, 0)
        if not members:
            raise InvalidRequestError("nothing to update: give at least one member")
        rename = self.slashtag is not None and isinstance(self.key, str)
        return Call(
            method="PUT",
            path=f"urls/{path_segment(self.key)}",
            returns=RowsUpdated,
            body=msgspec.json.encode(members),
            # After a rename that was done, the old slashtag no longer exists.
            repeat="if unsent" if once else "if not done" if rename else "always",
            secrets=(self.password,) if self.password else (),
        )


class Outcome(Struct, frozen=True):
    """Outcome of one change.

    "done": the service changed `rows_updated` rows; "failed": it did not, because of `error`; "unknown": the
    answer was lost, so it may have been done.
    """

    change: Change
    status: Literal["done", "failed", "unknown"]
    rows_updated: int | None = None
    error: SlashtagError | None = None


class Conflict(Struct, frozen=True):
    """Conflict of the change with index `at` with the change with index `other`.

    "key": they have the same key; "slashtag": both rename to the same slashtag;
    "swap": it renames to the slashtag of the other.
    """

    rule: Literal["key", "slashtag", "swap"]
    at: int
    other: int


def conflicts(changes: Iterable[Change]) -> Iterator[Conflict]:
    """Yield the conflicts among changes, which must not be sent concurrently."""
    keys: dict[str | int, int] = {}
    renamed: dict[str, int] = {}
    for n, change in enumerate(changes):
        key, new = change.key, change.slashtag
        if key in keys:
            yield Conflict("key", n, keys[key])
        keys.setdefault(key, n)
        if new is not None and new != key:
            if new in renamed:
                yield Conflict("slashtag", n, renamed[new])
            renamed.setdefault(new, n)
    for new, n in renamed.items():
        if new in keys:
            yield Conflict("swap", n, keys[new])


def check_distinct(changes: Sequence[Change]) -> None:
    """Raise InvalidRequestError for the first conflict among the changes."""
    for found in conflicts(changes):
        key, new = changes[found.at].key, changes[found.at].slashtag
        text = {
            "key": f"{key!r} is changed twice, and changes are sent in no particular order",
            "slashtag": f"two links are renamed to {new!r}",
            "swap": f"{new!r} is changed, and another link is renamed to it: send them one after the other",
        }
        raise InvalidRequestError(text[found.rule])

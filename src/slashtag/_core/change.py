"""Changes to links: validation, requests, and conflicts between changes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from .._errors import InvalidRequestError, SlashtagError
from .answers import RowsUpdated
from .call import (
    MAX_PASSWORD,
    MAX_SLASHTAG,
    REDIRECT_CODES,
    Call,
    check_int,
    check_text,
    path_segment,
)
from .scrubber import HIDDEN

#: A URL with a scheme, which must not be a host before its port, and without blanks.
_URL = re.compile(r"(?i:https?://[^\s/?#]|(?!https?:|[^:/]*\.[^:/]*:\d)[a-z][a-z0-9+.-]*:\S)\S*")
#: What slashtags of changes of many links must look like: a member, a pattern, and what it asks for.
_MUST_BE: dict[str, tuple[re.Pattern[str], str]] = {
    "key": (
        re.compile(r"\S(.*\S)?", re.DOTALL),
        "no blank at its ends; give the id of a link that has",
    ),
    "slashtag": (re.compile(r"[^\s,]([^,]*[^\s,])?"), "no blank at its ends and no comma, for statistics"),
}


class Change(Struct, frozen=True, repr_omit_defaults=True):
    """Change to the link with this slashtag (str) or id (int); members that are None are not sent.

    `call` checks the limits of the service, and that a destination has a scheme and no blanks. See
    docs/service.md, Update a short URL.
    """

    key: str | int
    destination: str | None = None
    slashtag: str | None = None
    redirect_code: int | None = None
    password: str | None = None
    domain_id: int | None = None

    def __repr__(self) -> str:
        return Struct.__repr__(self if self.password is None else replace(self, password=HIDDEN))

    def __rich_repr__(self) -> Any:
        yield repr(self)

    def call(self, *, once: bool = False) -> Call[RowsUpdated]:
        """Return the request; raises InvalidRequestError, which never shows the password.

        With `once` it is repeated only if nothing was sent, or after a 429.
        """
        members: dict[str, object] = {}
        if self.destination is not None:
            members["destination"] = check_text("destination", self.destination, None)
            if not _URL.fullmatch(self.destination):
                text = "a scheme, such as https://, and no blanks"
                raise InvalidRequestError(f"destination must have {text}: {self.destination!r}")
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
            names = ", ".join(self.__struct_fields__[1:])
            raise InvalidRequestError(f"nothing to update: give one of {names}")
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
    answer was lost, or says that no row was changed, so it may have been done, or not have been needed.
    """

    change: Change
    status: Literal["done", "failed", "unknown"]
    rows_updated: int | None = None
    error: SlashtagError | None = None


def find_problems(changes: Iterable[tuple[int, Change]], unit: str) -> Iterator[tuple[int, str]]:
    """Yield (number, error) for changes that are not allowed, or must not be sent concurrently with others.

    `unit` is what the numbers of the changes count, for example "line".
    """
    changed: dict[str | int, int] = {}
    renamed: dict[str, int] = {}
    for n, change in changes:
        try:
            change.call()
        except InvalidRequestError as error:
            yield n, str(error)
            continue
        for name, (pattern, text) in _MUST_BE.items():
            value = getattr(change, name)
            if isinstance(value, str) and pattern.fullmatch(value) is None:
                yield n, f"{name} must have {text}: {value!r}"
        key, new = change.key, change.slashtag
        if changed.setdefault(key, n) != n:
            yield n, f"{key!r} is changed by {unit} {changed[key]} already"
        if new not in (None, key) and renamed.setdefault(new, n) != n:
            yield n, f"the link of {unit} {renamed[new]} is renamed to {new!r} too"
    for new, n in renamed.items():
        if new in changed:
            problem = f"{new!r} is the slashtag that {unit} {changed[new]} changes"
            yield n, f"{problem}: rename that link in a run of its own first; for a swap, to a third slashtag"

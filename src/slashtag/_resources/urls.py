"""The short URLs of the account, and changes to them: validation, requests, conflicts."""

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import count
from typing import Literal
from urllib.parse import quote

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr

from .._core.call import Call
from .._core.checks import Progress, check_callback, check_int, check_text
from .._core.limits import MAX_ID, MAX_PASSWORD, MAX_SLASHTAG
from .._core.secret import hidden
from .._errors import InvalidRequestError, OutcomeUnknownError, RequestFailedError, SlashtagError
from .._fanout import MOST_WAITING, Results, Tasks, run_workers
from .._records import REDIRECT_CODES, Page, ShortUrl
from .._sending.sender import Sender
from .listing import Resource

#: A URL with a scheme, which must not be a host before its port, and without blanks.
_URL = re.compile(r"(?i:https?://[^\s/?#]|(?!https?:|[^:/]*\.[^:/]*:\d)[a-z][a-z0-9+.-]*:\S)\S*")
#: What no path of a short URL has: a browser would encode it, end the path there, or leave the segment out. A
#: comma could not be counted.
_UNREACHABLE = re.compile(r"[\s\x00-\x1f\x7f-\x9f?#%\\,]|(?<![^/])\.\.?(?![^/])")


class RowsUpdated(Struct, gc=False):
    """Answer of an update."""

    rows_updated: int


class Change(Struct, frozen=True, repr_omit_defaults=True):
    """Change to the link with this slashtag (str) or id (int); members that are None are not sent.

    What sends it checks the limits of the service, and that a destination has a scheme and no blanks. See
    docs/service.md, Update a short URL.
    """

    key: str | int
    destination: str | None = None
    slashtag: str | None = None
    redirect_code: int | None = None
    password: str | None = None
    domain_id: int | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "password", hidden(self.password))

    def _call(self, *, once: bool = False) -> Call[RowsUpdated]:
        """Return the request; raises InvalidRequestError, which never shows the password.

        With `once` it is repeated only if nothing was sent, or after a 429.
        """
        members = dict[str, object]()
        if self.destination is not None:
            members["destination"] = check_text("destination", self.destination, None)
            if not _URL.fullmatch(self.destination):
                text = "a scheme, such as https://, and no blanks"
                raise InvalidRequestError(f"destination must have {text}: {self.destination!r}")
        if self.slashtag is not None:
            members["slashtag"] = check_text("slashtag", self.slashtag, MAX_SLASHTAG)
            if found := _UNREACHABLE.search(self.slashtag):
                raise InvalidRequestError(
                    f"slashtag must not contain {found[0]!r}, with which no short URL is reached or counted: "
                    f"{self.slashtag!r}"
                )
        if self.redirect_code is not None:
            # 302.0 equals a code, but the service takes integers.
            if not isinstance(self.redirect_code, int) or self.redirect_code not in REDIRECT_CODES:
                raise InvalidRequestError(
                    f"redirect_code must be one of {REDIRECT_CODES}, not {self.redirect_code!r}"
                )
            members["redirect_code"] = int(self.redirect_code)
        if self.password is not None:
            check_text("password", self.password, MAX_PASSWORD, empty=True)
            members["password"] = self.password
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
            body=msgspec.json.encode(members, enc_hook=str),
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


class Urls(Resource[ShortUrl]):
    """Short URLs of the account."""

    _path = "urls"
    _page_type = Page[ShortUrl]

    def __init__(self, sender: Sender, tasks: Tasks, workers: int) -> None:
        super().__init__(sender, tasks)
        self._workers = workers

    async def update(
        self,
        key: str | int,
        *,
        destination: str | None = None,
        slashtag: str | None = None,
        redirect_code: int | None = None,
        password: str | None = None,
        domain_id: int | None = None,
    ) -> int:
        """Update one short URL and return the number of rows that the service changed, which may be 0.

        `key` is a slashtag (str) or an id (int); if several links share a slashtag on different domains, the
        id has to be used. Only the members that are given are sent. The document gives defaults for omitted
        members (301, no password, domain 0) without saying whether an omission resets them: to be safe,
        give every member that must keep its value. Raises InvalidRequestError before anything is sent,
        NotFoundError, and OutcomeUnknownError if the answer was lost. A rename by slashtag is not repeated
        after a lost answer, since the old slashtag may no longer exist.
        See docs/service.md, Update a short URL.
        """
        password = hidden(password)
        change = Change(key, destination, slashtag, redirect_code, password, domain_id)
        return (await self._sender.send(change._call())).rows_updated

    def update_many(
        self,
        changes: Iterable[Change],
        *,
        after: Callable[[Outcome], object] | None = None,
        progress: Progress | None = None,
    ) -> Results[Outcome]:
        """Update many short URLs concurrently, each at most once; yield an Outcome as each is known.

        All changes are checked before the first is sent. InvalidRequestError names the first change that
        the service does not allow, or that conflicts with another: they are sent in no particular order. A
        failed change is yielded as an Outcome and the others continue; authentication errors are raised.
        Leave it early, as at a deadline, by `async with` or `aclose`: otherwise up to 100 more are sent.

        A change is repeated only if nothing was sent, or after a 429. If its answer was lost, it may have
        been done, and somebody else may have changed the link since: the outcome is "unknown". So it is if no
        row was updated, as the document does not say whether the link had these values already.

        `after` is called with each Outcome as soon as it is known, also if it is never read, and with that of
        the error that ends the iteration; an exception in it ends it too. `progress` is called with (changes
        done, total). See `update` for omitted members, and docs/service.md, Update a short URL.
        """
        check_callback("after", after)
        check_callback("progress", progress)
        calls = list(_calls(changes))
        results = asyncio.Queue[Outcome](MOST_WAITING)
        sender, done = self._sender.of_operation(), count(1)

        async def work(item: tuple[Change, Call[RowsUpdated]]) -> None:
            outcome = await _outcome(sender, *item)
            if after is not None:
                after(outcome)
            if outcome.error is not None and outcome.error.is_fatal:
                raise outcome.error
            await results.put(outcome)
            if progress is not None:
                progress(next(done), len(calls))

        return Results(self._tasks, partial(run_workers, calls, work, self._workers), results)


def check_change(change: Change) -> None:
    """Raise InvalidRequestError for a change that is not allowed; it never shows the password."""
    change._call()


def _calls(changes: Iterable[Change]) -> Iterator[tuple[Change, Call[RowsUpdated]]]:
    """Yield each change with its request; raises InvalidRequestError for one that must not be sent."""
    named = dict[str | int, int]()
    for n, change in enumerate(changes, 1):
        # Links that are named by their ids may be on different domains.
        names = {change.key}
        if change.slashtag is not None and isinstance(change.key, str):
            names.add(change.slashtag)
        try:
            call = change._call(once=True)
            if taken := [name for name in names if named.setdefault(name, n) != n]:
                raise InvalidRequestError(f"{taken[0]!r} is named by change {named[taken[0]]} already")
        except InvalidRequestError as error:
            raise InvalidRequestError(f"change {n} ({change.key!r}): {error}") from None
        yield change, call


async def _outcome(sender: Sender, change: Change, call: Call[RowsUpdated]) -> Outcome:
    try:
        rows = (await sender.send(call)).rows_updated
        if rows > 0:
            return Outcome(change, "done", rows_updated=rows)
        told = "the service says that it changed no link: it may have refused, or nothing was to change"
        error = OutcomeUnknownError(told, method=call.method, path=call.path)
        return Outcome(change, "unknown", rows_updated=rows, error=error)
    except OutcomeUnknownError as error:
        return Outcome(change, "unknown", error=error)
    except SlashtagError as error:
        if not (error.is_fatal or isinstance(error, RequestFailedError)):
            raise
        return Outcome(change, "failed", error=error)


def path_segment(key: str | int) -> str:
    """Encode a slashtag or id as one path segment of an update."""
    if isinstance(key, int):
        return str(check_int("id", key, 1, MAX_ID))
    check_text("slashtag", key, MAX_SLASHTAG)
    if key.isascii() and key.isdigit():
        raise InvalidRequestError(
            f"the slashtag {key!r} is all digits, which the path cannot distinguish from an "
            "id: another link might be changed; name the link by its id"
        )
    if key in (".", ".."):
        raise InvalidRequestError(f"the slashtag {key!r} cannot be sent in a path; name the link by its id")
    return quote(key, safe="")

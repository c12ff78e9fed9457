"""AsyncSession: the client, and the creation of its parts."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack
from copy import copy
from functools import partial
from logging import WARNING
from math import inf
from numbers import Real
from time import time
from typing import TYPE_CHECKING, Any, Self

import aiohttp
from msgspec.structs import asdict, replace

from ._core.any_endpoint import Params, any_call
from ._core.batches import OTHER_PARAMETERS_BYTES
from ._core.checks import POSITIVE_INT, POSITIVE_SECONDS, SECONDS, Progress, Rule, check_options
from ._core.limits import MAX_TARGET_BYTES
from ._core.paging import Paging
from ._core.retry import RetryPolicy
from ._core.secret import hidden
from ._core.throttle.throttle import Throttle
from ._core.windows import RangeEnd
from ._credentials import Credentials, Proxy, account_hash, parse_base_url
from ._errors import ConfigurationError, InvalidRequestError, SessionClosedError
from ._fanout import Tasks
from ._records import ShortUrl
from ._resources.listing import Listing
from ._resources.stats import Stats
from ._resources.tags import Tags
from ._resources.urls import Urls
from ._saved_logins import Login, find_login
from ._sending.admission import Admission
from ._sending.metrics import Metrics
from ._sending.sender import Sender
from ._sending.session_log import tell
from ._sending.transport import Transport

if TYPE_CHECKING:
    from ._journal.journal import Journal

_OPTIONS: dict[str, Rule] = {
    "concurrency": POSITIVE_INT,
    "timeout": POSITIVE_SECONDS,
    "retry": Rule(RetryPolicy | None, "a RetryPolicy"),
    "journal": Rule(str | os.PathLike | None, "a path", lambda path: path != ""),
    "journal_max_age": Rule(Real, SECONDS.words, lambda s: s >= 0),
    "max_response_bytes": POSITIVE_INT,
    "rate": Rule(Real | None, "a positive number of requests a second", lambda rate: 0 < rate < inf),
    "range_end": Rule(str, "'inclusive' or 'exclusive'", lambda end: end in ("inclusive", "exclusive")),
    "allow_http": Rule(bool, "True or False"),
    "profile": Rule(str | None, "the name of a profile", lambda name: name != ""),
    "http": Rule(aiohttp.ClientSession | None, "an aiohttp.ClientSession"),
}


class AsyncSession:
    """Client of one account of the service.

    Args:
        base_url: With or without /api/v1; None: SLASHTAG_BASE_URL of the environment.
        apikey: None: SLASHTAG_APIKEY.
        apisecret: None: SLASHTAG_APISECRET.
        profile: Login that `slashtag login --profile` saved; None: SLASHTAG_PROFILE, and if neither arguments
            nor the environment have an apikey or apisecret, what `slashtag login` saved.
        name: Stands in logs, errors and metrics, for a process with several accounts.
        concurrency: Maximum number of requests in flight; None: 32.
        timeout: Seconds of one attempt, from its admission; None: 30.
        retry: When and how often a failed request is repeated.
        journal: File that makes the session a resumable job.
        journal_max_age: Answers in the journal older than these seconds are requested again.
        max_response_bytes: Maximum size of a decompressed body.
        rate: Requests per second if you know the limit; None: learnt.
        range_end: Whether the service counts the last second of a date_range, which is undocumented; None:
            "inclusive".
        allow_http: Allow plain http to hosts other than loopback; None: no.
        http: Your own session, never closed; its pool needs `concurrency` connections, as waiting for one
            counts towards the timeout.
        proxy: URL of an HTTP proxy; None: none.

    Where `concurrency`, `timeout`, `range_end`, `allow_http` or `proxy` is None, SLASHTAG_CONCURRENCY and its
    like in the environment count, then what is saved with the profile that is used.

    Raises ConfigurationError, and JournalError for a journal that cannot be used. See docs/service.md,
    Authentication; Versioning.

    Use it with `async with`, or close it with `aclose()`. It belongs to the event loop that first uses it:
    in another loop or thread it raises ConfigurationError.

    Reads share connections; each write has a new one, so that one that fails before it left may be repeated.
    """

    urls: Urls
    tags: Tags
    stats: Stats

    def __init__(
        self,
        base_url: str | None = None,
        *,
        apikey: str | None = None,
        apisecret: str | None = None,
        profile: str | None = None,
        name: str = "",
        concurrency: int | None = None,
        timeout: float | None = None,
        retry: RetryPolicy | None = None,
        journal: str | os.PathLike[str] | None = None,
        journal_max_age: float = 86_400.0,
        max_response_bytes: int = 64 * 2**20,
        rate: float | None = None,
        range_end: RangeEnd | None = None,
        allow_http: bool | None = None,
        http: aiohttp.ClientSession | None = None,
        proxy: str | None = None,
    ) -> None:
        # First of all: a traceback may show the variables of this function.
        base_url, apikey, apisecret, proxy = map(hidden, (base_url, apikey, apisecret, proxy))
        given = Login(
            base_url=base_url,
            apikey=apikey,
            apisecret=apisecret,
            proxy=proxy,
            allow_http=allow_http,
            range_end=range_end,
            concurrency=concurrency,
            timeout=timeout,
        )
        options = asdict(find_login(given, profile))
        check_options(_OPTIONS, locals() | options)
        if http is not None and proxy is not None:
            raise ConfigurationError("proxy is a setting of your own http session")
        base = parse_base_url(options["base_url"], allow_http=options["allow_http"])
        via = None if http is not None or options["proxy"] is None else Proxy(options["proxy"])
        if via is not None and base.scheme == "http" and not options["allow_http"]:
            raise ConfigurationError(
                "a proxy would read the credentials in plain http: use https, or SLASHTAG_ALLOW_HTTP=true"
            )
        credentials = Credentials(options["apikey"], options["apisecret"])
        self._transport = Transport(base, credentials, http, via)
        self._range_end: RangeEnd = options["range_end"]
        self._concurrency: int = options["concurrency"]
        self._tasks = Tasks()
        #: Which path of statistics answers, of those that the document states and shows differently.
        self._statistics_paths: dict[str, str] = {}
        self._is_view = False
        self._closing = asyncio.Lock()
        self._journal: Journal | None = None
        if journal is not None:
            # Imported here: most sessions have no journal and do not need sqlite3.
            from ._journal.journal import Journal

            self._journal = Journal(
                journal, str(base), credentials.apikey, journal_max_age, partial(tell, name, WARNING)
            )
        admission = Admission(Throttle(self._concurrency, rate, partial(tell, name)))
        self._use(
            Sender(
                self._transport,
                admission,
                Metrics(admission, name),
                self._journal,
                timeout=options["timeout"],
                retry=retry or RetryPolicy(),
                max_response_bytes=max_response_bytes,
            )
        )

    def _use(self, sender: Sender) -> None:
        """Create the resources that send with this sender."""
        self._sender = sender
        self.urls = Urls(sender, self._tasks, self._concurrency)
        self.tags = Tags(sender, self._tasks)
        self.stats = Stats(
            sender,
            self._tasks,
            workers=self._concurrency,
            max_keys_bytes=MAX_TARGET_BYTES - OTHER_PARAMETERS_BYTES - len(self._transport.base.raw_path),
            range_end=self._range_end,
            paths=self._statistics_paths,
        )

    @property
    def base_url(self) -> str:
        """The address of the service, with /api/v1/."""
        return str(self._transport.base)

    @property
    def name(self) -> str:
        """The name that stands in logs, errors and metrics."""
        return self.metrics.name

    @property
    def metrics(self) -> Metrics:
        """Counters of the session and all its views."""
        return self._sender.metrics

    async def request(
        self, method: str, path: str, *, params: Params | None = None, json: object = None
    ) -> Any:
        """Send a request to an endpoint that has no method here, and return the data of its answer.

        `path` is relative to the base address (`"urls"`, `f"urls/{quote(slashtag, safe='')}"`): one that
        would leave it is refused. `params` are the query: texts, numbers, True or False; None is left out.
        `json` is the body: dicts, lists, structs, dataclasses.

        It has the credentials, the throttle, the errors and the redaction of all requests; values of members
        and parameters named as secrets are (`password`, `token`) are in no error and no log. It is repeated
        by its method: GET, PUT and DELETE after any failure, POST and PATCH only if nothing was sent or after
        a 429. A journal has no part in it.

        Any 2xx is a success. An envelope gives its data; JSON without data, or with more members than an
        envelope has, is returned as it is; None for an empty body, as with a 204.

        Raises InvalidRequestError before anything is sent; every kind of APIError, TransportError and
        UnexpectedResponseError; and OutcomeUnknownError if the answer to a write was lost, or is not JSON.
        See docs/service.md, General conventions.
        """
        call = any_call(method, path, params, json)
        del params, json  # which a traceback would show
        if isinstance(call, str):
            raise InvalidRequestError(call)
        return await self._sender.send(call)

    def with_options(
        self,
        *,
        timeout: float | None = None,
        retry: RetryPolicy | None = None,
        max_response_bytes: int | None = None,
    ) -> Self:
        """Return a view of the session with other options but the same connections and throttle.

        Leaving an `async with` of the view leaves the session open; `aclose` closes both.
        """
        given = {"timeout": timeout, "retry": retry, "max_response_bytes": max_response_bytes}
        changed: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        check_options(_OPTIONS, changed)
        view = copy(self)
        view._is_view = True
        view._use(replace(self._sender, **changed))
        return view

    async def aclose(self) -> None:
        """Close the session and all its views: cancel requests under way, close connections."""
        transport = self._transport
        transport.stop()
        async with self._closing, AsyncExitStack() as steps:  # runs in reverse order; every step runs
            if self._journal is not None:
                steps.push_async_callback(self._journal.aclose)
            steps.push_async_callback(transport.aclose)
            steps.callback(self._sender.admission.close)
            steps.push_async_callback(self._tasks.aclose)

    # -- for what is built on top (see _internal.py): private to users, and may change without notice

    def _account_key(self, salt: str) -> bytes:
        """Return 64 bytes that tell the account and base URL, see `account_hash`."""
        return account_hash(self._transport.credentials.apikey, salt, self.base_url, 64)

    def _as_one_operation(self) -> Self:
        """Return a view of the session whose requests are one operation, in turn with those of others."""
        view = self.with_options()
        view._use(view._sender.of_operation())
        return view

    def _list_on_request(self, progress: Progress | None = None) -> Listing[ShortUrl]:
        """List all links past caches, and accept no answer from before it was asked for.

        Iterating raises UnexpectedResponseError for an answer that is older by its Age, as of a cache that
        answers all the same.
        """
        return Listing(self.urls, Paging(), progress, made_after=time())

    async def __aenter__(self) -> Self:
        self._transport.bind()
        if self._transport.closed:
            raise SessionClosedError("the session is closed")
        return self

    async def __aexit__(self, *_: object) -> None:
        if not self._is_view:
            await self.aclose()

    def __repr__(self) -> str:
        if not hasattr(self, "_sender"):  # __init__ failed, and a traceback shows it
            return "<AsyncSession>"
        name, state = self.name, " (closed)" if self._transport.closed else ""
        return f"<AsyncSession {name + ': ' * bool(name)}{self.base_url}{state}>"

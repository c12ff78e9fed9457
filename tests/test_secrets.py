"""No error, no log and no repr shows a credential or a link's password, whatever the server sends back."""

from __future__ import annotations

import asyncio
import copy
import html
import json
import logging
import pickle
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import aiohttp
import pytest

from slashtag import AsyncSession, ConfigurationError, InvalidRequestError, RetryPolicy, SlashtagError
from slashtag._core.secret import Secret
from slashtag.bulk_update import BulkUpdate

from .support import wire as wires
from .support.sending import PAGE, ROWS, connect, until
from .support.wire import Answer, Request, Wire, envelope, ok

APIKEY = "Kx7/\"Qm&2<vT+9>pZ\\4w%20e'5"
APISECRET = "Sd8/\"Rn&3<uY+7\\'q%2"
PASSWORD = "Pü9/\"Wß&6<jH+2 >lC🦄\\3r%20'y"
TWICE = RetryPolicy(max_attempts=2, backoff_base=0)


def written(secret: str) -> list[str]:
    """A secret in the forms in which pages for debugging show it."""
    escaped = html.escape(secret)
    return [
        secret,
        json.dumps(secret)[1:-1],
        json.dumps(secret)[1:-1].replace("/", "\\/"),
        json.dumps(secret, ensure_ascii=False)[1:-1],
        quote(secret),
        quote(secret, safe=""),
        quote_plus(secret),
        escaped,
        html.escape(secret, quote=False),
        escaped.replace("&#x27;", "&#39;"),
    ]


def forms(secret: str) -> set[str]:
    """A secret as a server may write it, by each in pieces too: a cut one is not to be shown either."""
    return {form[at : at + 12] for form in written(secret) for at in range(0, len(form) - 12, 4)}


HIDDEN = {
    name: forms(value) for name, value in (("key", APIKEY), ("secret", APISECRET), ("password", PASSWORD))
}


def leaks(text: str, *, among: tuple[str, ...] = tuple(HIDDEN)) -> list[str]:
    texts = (text, text.encode("unicode_escape", "replace").decode(), text.replace("\\\\", "\\"))
    return [name for name in among if any(piece in one for piece in HIDDEN[name] for one in texts)]


def chain(error: BaseException | None, seen: set[int]) -> Iterator[BaseException]:
    """An error, and all that it names as its cause or its context."""
    if error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        for other in (error.__cause__, error.__context__):
            yield from chain(other, seen)


def shown(error: BaseException) -> str:
    """All that can be shown of an error and of those that it comes from, which hold no request of aiohttp."""
    texts = traceback.format_exception(error)
    for each in chain(error, set()):
        assert isinstance(each, SlashtagError), each
        texts += [repr(each), pickle.dumps(each).decode("utf-8", "replace")]
    return "\n".join(texts)


def logged(caplog: pytest.LogCaptureFixture) -> str:
    return "\n".join(f"{record.getMessage()} {record.__dict__}" for record in caplog.records)


# --- what a server may send back -----------------------------------------------------------------------


def echo(request: Request) -> str:
    """The credentials and the body of a request, in every form."""
    body = request.body.decode()
    texts = [request.headers["apikey"], request.headers["apisecret"]]
    texts += [str(json.loads(body).get("password", ""))] if body else []
    lines = [body, body.replace("/", "\\/"), json.dumps(request.headers)]
    return " | ".join([*lines, *(form for text in texts for form in written(text))])


def line(request: Request) -> bytes:
    return echo(request).replace("\n", " ").encode()


_HEAD = b"HTTP/1.1 200 OK\r\n"

ECHOES: dict[str, Callable[[Request], Answer]] = {
    **{
        f"envelope {status}": lambda request, status=status: envelope(status, echo(request), None)
        for status in (400, 401, 500)
    },
    "envelope in a 200": lambda request: envelope(400, echo(request), [], http_status=200),
    "data": lambda request: envelope(400, "No.", {echo(request): [{"in": echo(request)}]}),
    "page": lambda request: wires.response(500, line(request), [("Content-Type", "text/html")]),
    "page, 200": lambda request: wires.response(200, line(request)),
    "too large": lambda request: wires.response(200, line(request) * 50),
    "wrong data": lambda request: ok(echo(request)),
    "wrong member": lambda request: ok({"page": echo(request), "rows_updated": echo(request)}),
    "redirect": lambda request: wires.redirect("/" + quote(echo(request))),
    "bad UTF-8": lambda request: wires.response(200, b"\xff" + line(request)),
    "truncated": lambda request: wires.truncated(line(request)),
    "status line": lambda request: wires.raw(line(request) + b"\r\n\r\n"),
    "reason": lambda request: wires.raw(b"HTTP/1.1 500 " + line(request) + b"\r\nContent-Length: 0\r\n\r\n"),
    "header value": lambda request: wires.raw(_HEAD + b"x: \x00" + line(request) + b"\r\n\r\n"),
    "chunk": lambda request: wires.raw(
        _HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + line(request) + b"\r\n{}\r\n0\r\n\r\n"
    ),
    "encoding": lambda request: wires.response(
        200,
        b"x",
        [("Content-Encoding", "gzip"), ("X-Echo", "".join(filter(str.isascii, line(request).decode())))],
    ),
    "rate limit": lambda request: envelope(429, echo(request), None, headers=[("Retry-After", "60")]),
    "retry after": lambda request: envelope(503, "No.", None, headers=[("Retry-After", APIKEY)]),
    "reset": lambda request: wires.reset(),
    "stall": lambda request: wires.stall(),
}


def get(session: AsyncSession) -> Any:
    return session.urls.page()


def put(session: AsyncSession) -> Any:
    return session.urls.update("spring", password=PASSWORD)


def rename(session: AsyncSession) -> Any:
    return session.urls.update("spring", slashtag="summer", password=PASSWORD)


def post(session: AsyncSession) -> Any:
    return session.tags.create("spring")


@pytest.mark.parametrize("kind", ECHOES)
async def test_no_failure_shows_a_secret(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    options = {
        "apikey": APIKEY,
        "apisecret": APISECRET,
        "retry": RetryPolicy(max_attempts=2, backoff_base=0, max_wait=5),
        "timeout": 0.3 if kind == "stall" else 5,
        "max_response_bytes": 1_000 if kind == "too large" else 2**20,
    }
    for operation, given in ((get, False), (put, False), (put, True), (rename, False), (post, False)):
        caplog.clear()
        async with Wire(ECHOES[kind]) as wire, aiohttp.ClientSession() as http:
            async with connect(wire, http=http if given else None, **options) as session:
                with pytest.raises(SlashtagError) as told:
                    await operation(session)
            assert wire.requests[0].headers["apikey"] == APIKEY
            assert operation not in (put, rename) or wire.requests[0].json()["password"] == PASSWORD
        # A call knows no other's password.
        own = ("key", "secret", "password") if operation in (put, rename) else ("key", "secret")
        told_of = shown(told.value) + variables(told.value)
        assert leaks(told_of, among=own) == leaks(logged(caplog), among=own) == []
        error, again = told.value, pickle.loads(pickle.dumps(told.value))
        assert type(again) is type(error)
        assert (str(again), again.args, again.__dict__) == (str(error), error.args, error.__dict__)


# --- the variables of a traceback ----------------------------------------------------------------------


def variables(error: BaseException) -> str:
    """The variables of the functions of slashtag and aiohttp, as reporters of errors show them."""
    frames = [frame for each in chain(error, set()) for frame, _ in traceback.walk_tb(each.__traceback__)]
    modules = {frame.f_globals["__name__"].partition(".")[0] for frame in frames}
    assert "slashtag" in modules
    ours = [frame for frame in frames if frame.f_globals["__name__"].startswith(("slashtag.", "aiohttp."))]
    return str([expanded(frame.f_locals) for frame in ours])


def expanded(value: object) -> object:
    """A value as Sentry and rich show it: they take collections apart, whatever the repr of their class."""
    if isinstance(value, Mapping):
        return {repr(name): expanded(each) for name, each in value.items()}
    if isinstance(value, Sequence | Set) and not isinstance(value, str | bytes | bytearray):
        return [expanded(each) for each in value]
    return repr(value)


#: How a call ends: what the server does, and the options of the session. None of these echoes a secret.
ENDS: dict[str, tuple[Answer, dict[str, Any]]] = {
    "reset": (wires.reset(), {}),
    "timed out": (wires.stall(), {"timeout": 0.05}),
    "cancelled": (wires.stall(headers_sent=True), {}),
    "cancelled before admission": (
        envelope(429, "Too many.", None, headers=[("Retry-After", "60")]),
        {"retry": RetryPolicy()},
    ),
    "cancelled in backoff": (wires.html(502), {"retry": RetryPolicy(backoff_base=60, backoff_cap=60)}),
}


def generic(session: AsyncSession) -> Any:
    return session.request("PUT", "urls/spring", json={"password": PASSWORD})


@pytest.mark.parametrize("path", ["own session", "given session", "proxy"])
@pytest.mark.parametrize("end", ENDS)
async def test_no_variable_in_a_traceback_shows_a_secret(end: str, path: str) -> None:
    answer, options = ENDS[end]
    for operation in (get, put, generic):
        async with Wire(answer) as wire, aiohttp.ClientSession() as http:
            account: dict[str, Any] = {"apikey": APIKEY, "apisecret": APISECRET, "retry": TWICE}
            if path == "given session":
                account["http"] = http
            if path == "proxy":
                login = f"name:{quote(PASSWORD, safe='')}"
                account["proxy"] = wire.base_url.replace("//", f"//{login}@")
                account["allow_http"] = True
            async with connect(wire, **account | options) as session:
                call = asyncio.ensure_future(operation(session))
                if end.startswith("cancelled"):
                    await until(lambda wire=wire: bool(wire.requests))
                    await asyncio.sleep(0.01)
                    call.cancel()
                with pytest.raises((SlashtagError, asyncio.CancelledError)) as told:
                    await call
        assert leaks(variables(told.value)) == []


HIDE = "hunter2-hunter2"
#: Values of arguments with which there is no session.
UNUSABLE: dict[str, list[Any]] = {
    "base_url": [
        *(
            f"https://user:{HIDE}@links.example",
            f"user:{HIDE}@links.example",
            HIDE,
            f"ftp://links.example/{HIDE}",
        ),
        *(f"https:///{HIDE}", "", "https://links.example/?key=x", f"https://links.example:{HIDE}/"),
        *(f"https://{HIDE}..example/", f"https://links.example/{HIDE} x", 42, None),
    ],
    "apikey": [None, HIDE.ljust(19, "x"), HIDE.ljust(31, "x"), f"{HIDE} 56789", f"{HIDE}5678é"],
    "apisecret": [HIDE[:11], HIDE.ljust(21, "x")],
    "proxy": [f"socks5://name:{HIDE}@127.0.0.1", f"http://name:{HIDE}@127.0.0.1/path"],
    "concurrency": [0],
}


@pytest.mark.parametrize(("name", "value"), [(name, each) for name, of in UNUSABLE.items() for each in of])
def test_what_a_session_refuses_shows_no_secret(
    name: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLASHTAG_BASE_URL", raising=False)
    given = {"base_url": "https://links.example", "apikey": f"{HIDE}-5678", "apisecret": HIDE}
    with pytest.raises(ConfigurationError) as told:
        AsyncSession(**given | {name: value})
    assert HIDE[:11] not in variables(told.value) + shown(told.value)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("urls", {"password": PASSWORD, "x": object()}),
        ("urls", {"password": PASSWORD + "\ud83d"}),
        ("..", {"password": PASSWORD}),
    ],
)
async def test_no_variable_shows_a_secret_where_nothing_is_sent(path: str, value: object) -> None:
    async with Wire([]) as wire, connect(wire, apikey=APIKEY, apisecret=APISECRET) as session:
        with pytest.raises(InvalidRequestError) as told:
            await session.request("POST", path, json=value)
    assert leaks(variables(told.value)) == leaks(shown(told.value)) == []


def test_nothing_that_holds_a_secret_is_pickled() -> None:
    session = connect("https://links.example", apikey=APIKEY, apisecret=APISECRET)
    for thing in (Secret(APIKEY), session._transport.credentials, session._transport.scrubber):
        with pytest.raises(TypeError):
            pickle.dumps(thing)
    assert leaks(f"{session!r} {vars(session)!r} {vars(session._transport)!r}") == []
    assert str(copy.deepcopy(Secret(APIKEY))) == APIKEY
    assert repr(Secret(APIKEY)[:9]) == "'***'"


@pytest.mark.parametrize(
    "text",
    [
        "slashtag,password\nk0,{0}\nk0,{0}\n",  # a link twice
        "slashtag,password,redirect_code\nk0,{0},999\n",
        "slashtag,password,redirect_code\nk0,{0}\n",
        "slashtag,password\nk0,{0}\nk1,{0},more\n",
        "id,slashtag,password,hits,redirect_code\n1,k0,{0},,999\n",  # a listing, compared with the links
        '{{"slashtag": "k0", "password": [{1}]}}\n',  # in a cell of a wrong type
    ],
)
async def test_errors_of_changes_show_no_password_of_their_rows(text: str, tmp_path: Path) -> None:
    path = tmp_path / "changes.csv"
    path.write_text(text.format(PASSWORD, json.dumps(PASSWORD)), "utf-8")
    async with (
        Wire(lambda request: ok(PAGE | {"items": [{"id": 1, "slashtag": "k0"}]})) as wire,
        connect(wire, apikey=APIKEY, apisecret=APISECRET) as session,
    ):
        with pytest.raises(InvalidRequestError) as raised:
            await BulkUpdate(session, path).preview()
    assert leaks(variables(raised.value) + shown(raised.value), among=("password",)) == []


async def test_a_success_logs_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "slashtag")
    items = [{"id": 1, "hits": form.rjust(90, "-")} for form in written(APIKEY)]  # cut where it is shown
    async with (
        Wire(lambda request: ok({**PAGE, "items": items} if request.method == "GET" else ROWS)) as wire,
        connect(wire, apikey=APIKEY, apisecret=APISECRET) as session,
    ):
        await get(session)
        await put(session)
    assert len([record for record in caplog.records if record.name == "slashtag"]) == 2 + len(items)
    assert leaks(logged(caplog)) == []


async def test_a_refused_password_is_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    async with Wire([]) as wire, connect(wire) as session:
        for password in (PASSWORD * 3, PASSWORD.encode(), [PASSWORD]):
            with pytest.raises(SlashtagError) as told:
                await session.urls.update("spring", password=password)  # type: ignore[arg-type]
            assert leaks(shown(told.value)) == []


def test_the_search_for_leaks_finds_them() -> None:
    error = SlashtagError("x")
    assert leaks(shown(error)) == []
    error.__context__ = SlashtagError("y")
    error.__context__.data = {"headers": [APIKEY.encode()]}  # type: ignore[attr-defined]
    assert leaks(shown(error)) == ["key"]
    for text in (html.escape(PASSWORD), json.dumps({"a": PASSWORD}), quote(PASSWORD), repr(PASSWORD)):
        assert leaks(shown(SlashtagError(text))) == ["password"]
    assert leaks(APISECRET[3:]) == ["secret"]

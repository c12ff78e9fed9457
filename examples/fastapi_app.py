"""Serve links and clicks with FastAPI: `python fastapi_app.py`; your account: `uvicorn fastapi_app:app`."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from importlib import import_module
from math import ceil
from typing import Annotated, Any, TypeVar

from account import account
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, StrictInt, StrictStr

from slashtag import (
    AsyncSession,
    Change,
    DateRange,
    Failure,
    InvalidRequestError,
    NotFoundError,
    QueueTimeoutError,
    RateLimitError,
    SessionClosedError,
    SlashtagError,
    TransportError,
    UnknownTagError,
)

T = TypeVar("T")
log = logging.getLogger("app")


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None, None]:
    """Open one session for the life of the application, and run its job beside the requests."""
    async with AsyncSession() as session:
        app.state.session, app.state.report = session, None
        job = asyncio.create_task(keep_report(app, session))
        yield
        job.cancel()
        with suppress(asyncio.CancelledError):
            await job


async def keep_report(app: FastAPI, session: AsyncSession) -> None:
    """Renew the report every ten minutes; its requests take turns with those of pages."""
    while True:
        try:
            app.state.report = await session.stats.collect(DateRange.last(90), keys=session.urls.list())
        except SlashtagError as error:
            log.warning("the report is not renewed: %s", error)
        await asyncio.sleep(600)


app = FastAPI(lifespan=lifespan)


async def for_client(request: Request, work: Coroutine[Any, Any, T], seconds: float = 5) -> T:
    """Await work for at most some seconds; cancel it, and its requests, if the client disconnects."""
    task = asyncio.create_task(work)

    async def listen() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        task.cancel()

    listener = asyncio.create_task(listen())
    try:
        async with asyncio.timeout(seconds):
            return await task
    except asyncio.CancelledError:
        if not listener.done():
            raise  # the server stops
        raise HTTPException(499, "the client has disconnected") from None
    finally:
        listener.cancel()


def status_of(error: Exception) -> int:
    """Return the status with which a page ends after an error."""
    match error:
        case InvalidRequestError():
            return 422
        case NotFoundError() | UnknownTagError():
            return 404
        case RateLimitError() | QueueTimeoutError() | SessionClosedError() | TransportError(unsent=True):
            return 503
        case TimeoutError():  # RequestTimeoutError is one
            return 504
        case _:
            return 502


@app.exception_handler(SlashtagError)
@app.exception_handler(TimeoutError)
async def answer_error(request: Request, error: Exception) -> JSONResponse:
    """Answer with the reason, or of a failure with the status alone, as the reason is for the log."""
    status = status_of(error)
    log.info("%s: %s: %r", request.url.path, status, error)
    seconds: float | None = getattr(error, "retry_after", None)
    headers = None if seconds is None else {"Retry-After": str(ceil(seconds))}
    detail = str(error) if status < 500 else HTTPStatus(status).phrase
    return JSONResponse({"detail": detail}, status, headers)


def get_session(request: Request) -> AsyncSession:
    """Return the session of the application."""
    session: AsyncSession = request.app.state.session
    return session


def read_days(days: str = "30d") -> DateRange:
    """Read `days=last-month`, `days=2024-06-01..2024-06-30` and the like from the URL."""
    return DateRange.parse(days)


Session = Annotated[AsyncSession, Depends(get_session)]
Days = Annotated[DateRange, Depends(read_days)]


class ChangedLink(BaseModel, extra="forbid"):
    """What a client may change of a link."""

    key: StrictInt | StrictStr
    destination: str | None = None
    redirect_code: int | None = None


@app.get("/links")
async def links(request: Request, session: Session, limit: int = 50) -> list[dict[str, Any]]:
    """Return the latest links."""
    found = await for_client(request, session.urls.list(orderby="-date").to_list(limit))
    return [link.to_dict() for link in found]


@app.get("/clicks/{slashtag}")
async def clicks(request: Request, session: Session, slashtag: str, days: Days) -> dict[str, Any]:
    """Return the clicks of a link."""
    stats = await for_client(request, session.stats.collect(days, keys=[slashtag]))
    return stats.to_dict()


@app.put("/links")
async def change(session: Session, changes: list[ChangedLink]) -> list[dict[str, Any]]:
    """Change links, and return the outcome of each; a client that disconnects does not end it."""
    outcomes = session.urls.update_many([Change(**each.model_dump()) for each in changes])
    return [{"key": each.change.key, "status": each.status} async for each in outcomes]


@app.get("/totals")
async def totals(request: Request, session: Session, days: Days, seconds: float = 1) -> dict[str, Any]:
    """Return the clicks of each link, as far as they are known after some seconds."""
    found: dict[str, int] = {}
    failures: list[Failure] = []

    async def collect() -> bool:
        deadline = asyncio.timeout(seconds)
        # One by one: results that are inferred come together, those of links with clicks at the end.
        each = session.stats.collect_each(
            days, keys=session.urls.list(), inferred=False, on_error=failures.append
        )
        try:
            async with deadline, each as results:
                async for slashtag, stats in results:
                    found[slashtag] = stats.total
        except TimeoutError:
            if not deadline.expired():  # a RequestTimeoutError: the service did not answer
                raise
            return False
        if failures and not found:
            raise failures[0].error
        return not failures

    return {"complete": await for_client(request, collect(), seconds + 1), "clicks": found}


@app.get("/report")
async def report(request: Request) -> dict[str, Any]:
    """Return the report that the job has made."""
    if request.app.state.report is None:
        raise HTTPException(503, "the report is not ready", {"Retry-After": "10"})
    found: dict[str, Any] = request.app.state.report.to_dict()
    return found


@app.get("/metrics")
async def metrics(session: Session) -> dict[str, Any]:
    """Return the counters of the session."""
    return session.metrics.to_dict()


if __name__ == "__main__":
    with account():
        import_module("uvicorn").run(app, timeout_graceful_shutdown=1)

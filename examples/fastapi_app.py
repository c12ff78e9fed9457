"""Serve links and clicks of the account with FastAPI: `uvicorn fastapi_app:app`, in this folder."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from account import account
from fastapi import FastAPI, Request

from slashtag import AsyncSession, DateRange, RangeStats, ShortUrl


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None, None]:
    """Open one session for the life of the application: its endpoints share connections and throttle."""
    with account():
        async with AsyncSession() as session:
            app.state.session = session
            yield


app = FastAPI(lifespan=lifespan)


@app.get("/links")
async def links(request: Request, limit: int = 50) -> list[ShortUrl]:
    """Return the latest links."""
    session: AsyncSession = request.app.state.session
    return await session.urls.list(orderby="-date").to_list(limit)


@app.get("/clicks/{slashtag}")
async def clicks(request: Request, slashtag: str, days: int = 30) -> RangeStats:
    """Return the clicks of a link."""
    session: AsyncSession = request.app.state.session
    return await session.stats.collect(DateRange.last(days), keys=[slashtag])

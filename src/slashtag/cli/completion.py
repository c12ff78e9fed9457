"""Completion of names that the service knows, for the shell."""

import asyncio
import os

from .. import AsyncSession, SlashtagError
from .credentials_file import credentials

#: Seconds after which the shell goes without.
PATIENCE = 3.0


def complete_tags(incomplete: str) -> list[str]:
    """Return the names of tags that begin so; none if the service cannot be asked soon."""
    try:
        return [name for name in asyncio.run(_tag_names()) if name.startswith(incomplete)]
    except (SlashtagError, OSError, TimeoutError):
        # A message would end up in the line that is typed.
        return []


async def _tag_names() -> list[str]:
    base_url, apikey, apisecret = credentials(
        os.environ.get("SLASHTAG_BASE_URL"), os.environ.get("SLASHTAG_PROFILE")
    )
    async with (
        asyncio.timeout(PATIENCE),
        AsyncSession(base_url, apikey=apikey, apisecret=apisecret) as session,
    ):
        return [tag.name for tag in await session.tags.list().to_list()]

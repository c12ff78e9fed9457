"""Links and tags of the account as immutable values, and what JSON takes in their place."""

from datetime import datetime
from typing import Annotated, Any, Generic, TypeVar, cast

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import asdict

T = TypeVar("T")
#: Redirect codes of the service's document.
REDIRECT_CODES = (301, 302, 303, 304, 307, 308)
#: Time of a record, without a zone.
Time = Annotated[datetime, Meta(tz=False)]


class Record(Struct, frozen=True, kw_only=True):
    """Base class of links, tags, pages and statistics, for conversion to built-in values."""

    def to_dict(self) -> dict[str, Any]:
        """Return a dict that json.dumps takes: names of members as here, dates as ISO 8601, keys as str."""
        # Of a subclass of date or datetime, such as those of pandas and freezegun.
        members: dict[str, Any] = msgspec.to_builtins(
            asdict(self), str_keys=True, enc_hook=lambda value: value.isoformat()
        )
        return members


class ShortUrl(Record, frozen=True, kw_only=True, gc=False, rename="camel"):
    """One short URL of the account.

    `hits` is the click counter; timestamps have no zone, as the service documents none; `tag_id` is None if
    the link has no tag. A member other than `id` that cannot be read is None, so add up `url.hits or 0`;
    `metrics.unreadable` counts these. See docs/service.md, Short URL.
    """

    id: int
    destination: str | None = None
    hits: int | None = None
    redirect_code: int | None = None
    short_url: str | None = None
    slashtag: str | None = None
    created_at: Time | None = None
    updated_at: Time | None = None
    tag_id: int | None = None


class Tag(Record, frozen=True, kw_only=True, gc=False, rename="camel"):
    """One tag of the account; `name` is unique.

    A member other than `id` that cannot be read is None. See docs/service.md, Tag.
    """

    id: int
    name: str | None = None
    description: str | None = None
    created_at: Time | None = None


class Page(Record, Generic[T], frozen=True, kw_only=True, rename="camel"):
    """One page of a listing: its number, the pageSize that the service used, its items."""

    page: int
    page_size: int
    items: list[T]

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"items": [each.to_dict() for each in cast("list[Record]", self.items)]}

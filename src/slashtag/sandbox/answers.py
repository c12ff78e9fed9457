"""Shapes of requests and answers."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from .rules import bad_request
from .store import Link, Tag
from .world import DIRECT, DOMAINS

API = "/api/v1"


@dataclass(frozen=True, slots=True)
class Request:
    """Request as it arrived: `path` still percent-encoded, header names in lower case."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> dict[str, object]:
        """Return the body, a JSON object declared as such. See docs/service.md, General conventions."""
        if self.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise bad_request("Content-Type must be application/json.")
        try:
            return msgspec.json.decode(self.body, type=dict[str, object])
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise bad_request("Body must be a JSON object.") from None


class Envelope(msgspec.Struct, frozen=True):
    """Answer without the member `data` if that is UNSET. See docs/service.md, General conventions."""

    status: int
    message: str
    data: Any = msgspec.UNSET


def split_target(target: str) -> tuple[str, dict[str, str]]:
    """Split a request target into its encoded path and decoded query; the last of repeated values counts."""
    # Bytes that are not UTF-8 arrive as lone surrogates, which SQLite refuses.
    target = target.encode(errors="surrogateescape").decode(errors="replace")
    path, _, query = target.partition("?")
    return path, dict(parse_qsl(query, keep_blank_values=True))


def error_data(path: str) -> list[object] | None:
    """Return the `data` of an error: an empty array on statistics paths, null elsewhere."""
    return [] if path.startswith(f"{API}/stats") else None


def url_item(link: Link, hits: int) -> dict[str, object]:
    """Return a link as an item of the URL list. See docs/service.md, Short URL."""
    item: dict[str, object] = {
        "id": link.id,
        "destination": link.destination,
        "hits": hits,
        "redirectCode": str(link.redirect_code),
        "shortUrl": f"https://{DOMAINS[link.domain]}/{link.slashtag}",
        "slashtag": link.slashtag,
        "createdAt": _stamp(link.created_at),
        "updatedAt": _stamp(link.updated_at),
    }
    if link.tag is not None:
        item["tagId"] = link.tag
    return item


def tag_item(tag: Tag) -> dict[str, object]:
    """Return a tag as a record. See docs/service.md, Tag."""
    return {
        "id": tag.id,
        "name": tag.name,
        "description": tag.description,
        "createdAt": _stamp(tag.created_at),
    }


def digits(counts: Mapping[str, int]) -> dict[str, object]:
    """Write counts as strings of digits, but the `Direct` entry. See docs/service.md, Statistics records."""
    return {label: n if label == DIRECT else str(n) for label, n in counts.items()}


def _stamp(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")

"""The shapes of requests and answers."""

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
class Ask:
    """Hold one request as it arrived; `path` is still percent-encoded, header names are in lower case."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> dict[str, object]:
        """Read a body that must be a JSON object, and be said to be JSON (service document, Conventions)."""
        if self.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise bad_request("Content-Type must be application/json.")
        try:
            return msgspec.json.decode(self.body, type=dict[str, object])
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise bad_request("Body must be a JSON object.") from None


class Envelope(msgspec.Struct, frozen=True):
    """Hold one answer (service document, General conventions); `data` UNSET leaves the member out."""

    status: int
    message: str
    data: Any = msgspec.UNSET


def split_target(target: str) -> tuple[str, dict[str, str]]:
    """Split a request target into its encoded path and its decoded query, of which the last value counts."""
    # Bytes that are no UTF-8 come as lone surrogates, which no database takes.
    target = target.encode(errors="surrogateescape").decode(errors="replace")
    path, _, query = target.partition("?")
    return path, dict(parse_qsl(query, keep_blank_values=True))


def nothing(path: str) -> list[object] | None:
    """Return what an error of this path bears as `data`: an empty array for statistics, null elsewhere."""
    return [] if path.startswith(f"{API}/stats") else None


def url_item(link: Link, hits: int) -> dict[str, object]:
    """Return a link as an item of the URL list (service document, Short URL)."""
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
    """Return a tag as a record (service document, Tag)."""
    return {
        "id": tag.id,
        "name": tag.name,
        "description": tag.description,
        "createdAt": _stamp(tag.created_at),
    }


def texts(counts: Mapping[str, int]) -> dict[str, object]:
    """Write counts as strings of digits, but the `Direct` entry (service document, Statistics records)."""
    return {label: n if label == DIRECT else str(n) for label, n in counts.items()}


def _stamp(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")

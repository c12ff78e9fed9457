"""Redaction: secrets are replaced in whatever an error may show of an answer."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache
from typing import Any

from .._errors import REQUEST_IDS

EXCERPT_BYTES = 200
HIDDEN = "***"
# Far more than is shown, so that a secret cut at this limit never reaches the excerpt.
SCRUBBED_BYTES = 2**16
# The documented `data` of an error is null or empty; data nested deeper than this cannot always be pickled.
_DEEPEST_DATA = 32


_SHOWN_HEADERS = {each.lower() for each in (*REQUEST_IDS, "Retry-After", "Date", "Server", "Content-Type")}
#: Names of members and parameters whose values are secret.
_SECRET = re.compile(
    r"pass(?!ive|enger|port)|pwd|secret|token|credential|cookie|auth(?!ors?\b|enticate)|signature"
    r"|session[-_]?id|(api|private)[-_]?key",
    re.IGNORECASE,
)


@lru_cache(maxsize=1024)
def is_secret(name: str) -> bool:
    """Return whether the value of something with this name must not be shown."""
    return _SECRET.search(name) is not None


class Scrubber:
    """Filter that replaces secrets in error texts, in every encoding in which an answer may echo them.

    Not a Sequence: Sentry and rich take these apart and show their items.
    """

    def __init__(self, secrets: Iterable[str | None]) -> None:
        self._secrets = frozenset(filter(None, secrets))

    def adding(self, secrets: Iterable[str]) -> Scrubber:
        """Return a scrubber that replaces these secrets as well."""
        return Scrubber(self._secrets.union(secrets)) if secrets else self

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        ordered = sorted(self._secrets, key=len, reverse=True)
        return re.compile("|".join("".join(map(_in_each_form, secret)) for secret in ordered) or r"(?!)")

    def text(self, text: str) -> str:
        """Replace secrets in text."""
        return self._pattern.sub(HIDDEN, text)

    def excerpt(self, body: bytes | bytearray) -> bytes:
        """Return the start of a body without secrets."""
        text = body[:SCRUBBED_BYTES].decode(errors="surrogateescape")
        return self.text(text).encode(errors="surrogateescape")[:EXCERPT_BYTES]

    def headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return the headers of an answer that an error shows, without secrets."""
        return {name: self.text(text) for name, text in headers.items() if name.lower() in _SHOWN_HEADERS}

    def value(self, value: Any, depth: int = _DEEPEST_DATA) -> Any:
        """Replace secrets in decoded JSON; values nested deeper than `depth` become None."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list | dict) and not depth:
            return None
        if isinstance(value, list):
            return [self.value(item, depth - 1) for item in value]  # pyright: ignore[reportUnknownVariableType]
        if isinstance(value, dict):
            return {self.text(str(k)): self.value(v, depth - 1) for k, v in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        return value


# Looked up at import: a codec is a file, and errors must work even if no file can be opened.
_utf16 = codecs.getencoder("utf-16-be")
# Of the characters that HTML escapes; `html` would bring the names of thousands.
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}


@lru_cache(maxsize=256)
def _in_each_form(char: str) -> str:
    """Return a pattern for one character as it is, in JSON, percent-encoded and in HTML."""
    in_json = r"\/" if char == "/" else json.dumps(char)[1:-1]
    in_form = "+" if char == " " else char
    units = _utf16(char)[0].hex()
    # An echo may be JSON inside JSON.
    forms = {r"\\{0,7}" + re.escape(form) for form in (char, in_json, in_form, _ENTITIES.get(char, char))} | {
        "".join(rf"\\{{1,7}}u(?i:{units[at : at + 4]})" for at in range(0, len(units), 4)),
        "(?i:" + "".join(f"%{byte:02x}" for byte in char.encode()) + ")",
        f"(?i:&#(?:0*{ord(char)}|x0*{ord(char):x});)",
    }
    return f"(?:{'|'.join(sorted(forms))})"

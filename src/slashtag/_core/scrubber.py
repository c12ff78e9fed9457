"""Redaction: secrets are replaced in whatever an error may show of an answer."""

from __future__ import annotations

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
_SHOWN_HEADERS = {each.lower() for each in (*REQUEST_IDS, "Retry-After", "Date", "Server", "Content-Type")}
#: Names of members and parameters whose values are secret.
_SECRET = re.compile(
    r"pass(?!ive|enger|port)|pwd|secret|token|credential|cookie|auth(?!ors?\b|enticate)|signature"
    r"|session[-_]?id|(api|private)[-_]?key",
    re.IGNORECASE,
)


@lru_cache(maxsize=256)  # a job names the same ones in each request
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
        patterns = ["".join(map(_in_each_form, secret)) for secret in ordered]
        return re.compile("|".join(patterns) or r"(?!)", re.IGNORECASE)

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

    def value(self, value: Any) -> Any:
        """Replace secrets in decoded JSON."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
        if isinstance(value, dict):
            return {self.text(str(k)): self.value(v) for k, v in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        return value


@lru_cache(maxsize=256)
def _in_each_form(char: str) -> str:
    """Return a pattern for one character as it is, in JSON, percent-encoded and in HTML."""
    forms = [
        r"\\{0,7}" + re.escape(char),
        # An echo may be JSON inside JSON.
        re.escape(json.dumps(char)[1:-1]).replace(r"\\", r"\\{1,7}"),
        rf"\\{{1,7}}u{ord(char):04x}",
        "".join(f"%{byte:02x}" for byte in char.encode()),
        f"&#(?:0*{ord(char)}|x0*{ord(char):x});",
    ]
    if char in ' &<>"':
        forms.append(r"\+|&(?:amp|lt|gt|quot);")
    return f"(?:{'|'.join(forms)})"

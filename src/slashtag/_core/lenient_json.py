"""Texts of answers that are not Unicode: half an emoji, a byte of another encoding, a NUL.

msgspec refuses the whole answer for them. `decode` reads it all the same, with a lone surrogate in place of
each byte or half that is no character, so that `is_readable` tells these texts from others, also from those
that had U+FFFD before. `repaired` puts U+FFFD in their place.
"""

import json
import re
from collections.abc import Callable, Iterable
from typing import Any, cast

#: Is called with each text that cannot be read, in words.
ReportUnreadable = Callable[[str], object]

_LONE = re.compile("[\ud800-\udfff]")
#: Control characters that no JSON may hold unescaped, even between its values.
_CONTROL = {n: 0xDC00 + n for n in range(0x20) if chr(n) not in "\t\n\r"}


def decode(body: bytes | bytearray) -> Any:
    """Return the value of a JSON text; raises ValueError and RecursionError.

    It may begin with a byte order mark, be in UTF-16 or UTF-32, and its strings may have tabs and line ends.
    See RFC 8259, 8.1 and 8.2.
    """
    encoding = json.detect_encoding(body)
    errors = "surrogateescape" if encoding.startswith("utf-8") else "surrogatepass"
    return json.loads(body.decode(encoding, errors).translate(_CONTROL), strict=False)


def is_readable(text: str) -> bool:
    """Return whether a text of `decode` is Unicode."""
    return text.isascii() or _LONE.search(text) is None


def repaired(
    value: Any, report: ReportUnreadable, name: str = "a text", *, without_labels: bool = False
) -> Any:
    """Return a value of `decode` with U+FFFD in its texts where they are not Unicode.

    Counts of a map whose labels thus become equal are added up; `without_labels` leaves such labels out.
    `name` is that of the value.
    """
    if isinstance(value, str) and not is_readable(value):
        report(f"{name}: {value!r}")
        return _LONE.sub("\ufffd", value)
    if isinstance(value, list):
        items = cast("Iterable[object]", value)
        return [repaired(each, report, name, without_labels=without_labels) for each in items]
    if not isinstance(value, dict):
        return value
    found: dict[str, Any] = {}
    for label, given in cast("dict[str, object]", value).items():
        key = label if is_readable(label) else repaired(label, report, f"a label of {name}")
        if key != label and without_labels:
            continue
        each = repaired(given, report, key, without_labels=without_labels)
        found[key] = int(found[key]) + int(each) if key in found and _are_counts(found[key], each) else each
    return found


def _are_counts(*values: object) -> bool:
    return all(
        isinstance(value, int) or (isinstance(value, str) and value.isascii() and value.isdigit())
        for value in values
    )

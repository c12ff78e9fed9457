"""JSON whose texts are not Unicode: half an emoji, a byte of another encoding, a NUL. msgspec refuses it."""

import json
from typing import Any

#: What stands for what is no character.
REPLACEMENT = "\ufffd"
#: Control characters that no JSON may hold unescaped, even between its values.
_CONTROL = {n: REPLACEMENT for n in range(0x20) if chr(n) not in "\t\n\r"}


def decode(body: bytes | bytearray) -> Any:
    """Return the value of a JSON text, with U+FFFD in texts that are not Unicode.

    It may begin with a byte order mark, be in UTF-16 or UTF-32, and its strings may have tabs and line ends.
    Raises ValueError and RecursionError. See RFC 8259, 8.1 and 8.2.
    """
    encoding = json.detect_encoding(body)
    # Each byte and each half of a character that is none becomes a lone surrogate, so that labels stay apart.
    errors = "surrogateescape" if encoding.startswith("utf-8") else "surrogatepass"
    text = body.decode(encoding, errors).translate(_CONTROL)
    text = json.dumps(json.loads(text, strict=False), ensure_ascii=False)
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return json.loads(text, object_pairs_hook=_with_counts_added)


def _with_counts_added(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a map in which counts of labels that have become equal are added up."""
    found: dict[str, Any] = {}
    for label, given in pairs:
        before: Any = found.get(label)
        is_count = REPLACEMENT in label and f"{before}{given}".isdecimal()
        found[label] = int(before) + int(given) if is_count else given
    return found

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
    text = body.decode(json.detect_encoding(body), "replace").translate(_CONTROL)
    text = json.dumps(json.loads(text, strict=False), ensure_ascii=False)
    # What is left are escaped halves of characters.
    return json.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))

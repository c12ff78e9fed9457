"""JSON whose texts are not Unicode: half an emoji, a byte of another encoding. msgspec refuses it."""

import json

#: What stands for what is no character.
REPLACEMENT = "\ufffd"


def as_unicode(body: bytes | bytearray) -> str:
    """Return a JSON text with U+FFFD in place of what is no character, and without a byte order mark.

    Raises ValueError and RecursionError.
    """
    value = json.loads(body.decode("utf-8-sig", "replace"), strict=False)
    text = json.dumps(value, ensure_ascii=False)
    # What is left are escaped halves of characters.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

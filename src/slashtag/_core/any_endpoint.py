"""Calls of endpoints that have no method here: checks of what the caller gives, and the `Call`.

A problem is returned as text, not raised: a traceback may show the variables of these functions, which have
the body, and so passwords.
"""

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, cast
from urllib.parse import quote, unquote

import msgspec

from .call import Call, Repeat
from .response import AnyData
from .scrubber import is_secret

#: A method, and after which failures it is repeated. See RFC 9110, 9.2.2.
METHODS: dict[str, Repeat] = {
    "GET": "always",
    "PUT": "always",
    "DELETE": "always",
    "POST": "if unsent",
    "PATCH": "if unsent",
}
Params = Mapping[str, str | int | float | bool | None]
#: Of RFC 3986, 3.3, what a path may have unencoded, and the percent sign of what is encoded already.
_SAFE = "/%@!$&'()*+,;=~"
#: Text with whole escapes, and without what begins a host, a query or a fragment.
_PATH = re.compile(r"(?:[^%:?#\\]|%[0-9A-Fa-f]{2})+")


def any_call(method: object, path: object, params: Params | None, value: object) -> Call[Any] | str:
    """Return the call of an endpoint, or what is wrong with it."""
    if (method := str(method).upper()) not in METHODS:
        return f"the method must be one of {', '.join(METHODS)}"
    if not isinstance(path, str) or not is_below_base(path):
        return (
            "the path is relative to the base address, such as urls; encode % : ? # and backslashes, and "
            "leave no part empty or of dots"
        )
    if value is not None and method == "GET":
        return "a GET has no body: give params instead of json"
    try:
        pairs: Any = tuple(
            (name, json.dumps(given, allow_nan=False) if isinstance(given, int | float) else given)
            for name, given in dict(params or {}).items()
            if given is not None
        )
        "".join(map("".join, pairs)).encode()
        secrets, body = {each for name, each in pairs if is_secret(name)}, None
        if value is not None:
            # msgspec's encoder writes NaN as null.
            text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=msgspec.to_builtins)
            secrets.update(_secrets(json.loads(text)))
            body = text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        return f"params are texts, numbers, True, False or None, and json what JSON can hold: {error}"
    return Call(
        method=method,
        path=quote(path, safe=_SAFE),
        returns=AnyData,
        params=pairs,
        body=body,
        repeat=METHODS[method],
        secrets=tuple(secrets - {""}),
    )


@lru_cache(maxsize=64)  # of what is requested again and again
def is_below_base(path: str) -> bool:
    """Return whether a path, which may be percent-encoded, is one below the base address.

    See RFC 3986, 5.2.4.
    """
    text = unquote(path)
    # Servers take an encoded slash for a slash, and some a backslash too. A slash at the end may be meant.
    parts = text.replace("\\", "/").removesuffix("/").split("/")
    return bool(_PATH.fullmatch(path)) and text.isprintable() and all(part.strip(". ") for part in parts)


def _secrets(value: Any, *, is_hidden: bool = False) -> Iterator[str]:
    """Yield the texts of decoded JSON that no error may show: those below members that are named so."""
    if isinstance(value, dict):
        for name, each in cast("dict[str, Any]", value).items():
            yield from _secrets(each, is_hidden=is_hidden or is_secret(name))
    elif isinstance(value, list):
        for each in value:  # pyright: ignore[reportUnknownVariableType]
            yield from _secrets(each, is_hidden=is_hidden)
    elif is_hidden and isinstance(value, str):
        yield value

"""Calls of endpoints that have no method here: checks of what the caller gives, and the `Call`.

A problem is returned as text, not raised: a traceback may show the variables of these functions, which have
the body, and so passwords.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from math import isfinite
from typing import cast
from unicodedata import category, normalize
from urllib.parse import quote, unquote

import msgspec

from .call import Call, Repeat
from .response import AnyAnswer
from .scrubber import is_secret

#: A method, and after which failures it is repeated. See RFC 9110, 9.2.2.
METHODS: dict[str, Repeat] = {
    "GET": "always",
    "PUT": "always",
    "DELETE": "always",
    "POST": "if unsent",
    "PATCH": "if unsent",
}
Param = str | int | float | bool | None
Params = Mapping[str, Param | Iterable[Param]]
#: Of RFC 3986, 3.3, what a path may have unencoded, and the percent sign of what is encoded already.
_PATH = "/%:@!$&'()*+,;=~"
_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")
_NO_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")


def any_call(method: object, path: object, params: Params | None, json: object) -> Call[AnyAnswer] | str:
    """Return the call of an endpoint, or what is wrong with it."""
    if not isinstance(method, str) or method.upper() not in METHODS:
        return f"the method must be one of {', '.join(METHODS)}"
    method = method.upper()
    if not isinstance(path, str):
        return "the path must be a str"
    problem, quoted = _checked(path)
    if problem:
        return problem
    if json is not None and method == "GET":
        return "a GET has no body: give params instead of json"
    secrets = set[str]()
    try:
        pairs = list(_pairs(params or {}))
        # The service's names of members; bytes are kept, to be refused.
        body = None
        if json is not None:
            kinds = (bytes, bytearray)
            value = msgspec.to_builtins(json, builtin_types=kinds, str_keys=True, enc_hook=_plain)
            _check(value, secrets)
            body = msgspec.json.encode(value)
        "".join(map("".join, pairs)).encode()
    except UnicodeEncodeError:
        return "a text contains a lone surrogate, which has no UTF-8 form"
    except RecursionError:
        return "json is nested too deeply"
    except (TypeError, ValueError) as error:
        return f"it cannot be sent: {error}"
    secrets.update(value for name, value in pairs if is_secret(name))
    return Call(
        method=method,
        path=quoted,
        returns=AnyAnswer,
        params=tuple(pairs),
        body=body,
        repeat=METHODS[method],
        secrets=tuple(secrets - {""}),
    )


def path_problem(path: object) -> str:
    """Return why a path is not one below the base address, in any reading of it; empty if it is.

    It is relative, and may be percent-encoded. Servers and proxies decode it, take a backslash for a slash,
    drop what follows a semicolon, or normalise look-alikes (RFC 3986, 5.2.4 and 6.2.2).
    """
    if not isinstance(path, str):
        return "the path must be a str"
    if not path or path != path.strip():
        return "the path is empty or has blanks at its ends; it is relative to the base address, such as urls"
    if "?" in path or "#" in path:
        return "the path must not have a query or a fragment: give params; write ? as %3F and # as %23"
    if ":" in path.partition("/")[0]:
        return "the path must not be a URL: it is relative to the base address, such as urls"
    if _NO_ESCAPE.search(path):
        return "the path has a % that begins no escape; write it as %25"
    try:
        text = unquote(path.encode().decode(), errors="strict")
    except UnicodeError:
        return "the path is not UTF-8"
    if _ESCAPE.search(text):
        return "the path is encoded twice"
    text = normalize("NFKC", text)
    if "\\" in text or any(category(character) in ("Cc", "Zl", "Zp") for character in text):
        return "the path must not have a backslash or a control character, encoded or not"
    # A slash at the end is the endpoint's business. A blank or a semicolon hides dots from some servers.
    if not all(part.partition(";")[0].strip().strip(".") for part in text.removesuffix("/").split("/")):
        return "the path must not begin with a slash, nor have a part that is empty or of dots or blanks"
    return ""


@lru_cache(maxsize=256)
def _checked(path: str) -> tuple[str, str]:
    """Return what is wrong with a path, or the path encoded."""
    problem = path_problem(path)
    return problem, "" if problem else quote(path, safe=_PATH)


def _plain(value: object) -> object:
    """Return a Secret as msgspec takes it."""
    if isinstance(value, str):
        return str(value)
    raise TypeError(f"json has a {type(value).__name__}")


def _pairs(params: Params) -> Iterable[tuple[str, str]]:
    """Yield the names and texts of parameters; raises TypeError and ValueError."""
    if not isinstance(params, Mapping):
        raise TypeError("params must map names to values")
    for name, value in params.items():
        if not isinstance(name, str) or not name:
            raise TypeError("a name of params must be a str, not empty")
        is_many = isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)
        for each in cast("Iterable[Param]", value if is_many else (value,)):
            if isinstance(each, bool):
                yield name, "true" if each else "false"
            elif isinstance(each, str | int) or (isinstance(each, float) and isfinite(each)):
                yield name, str(each)
            elif each is not None:
                raise TypeError(f"{name} of params must be text, a finite number, True, False or None")


def _check(value: object, secrets: set[str], name: str = "") -> None:
    """Check JSON, and add the texts that no error may show; raises TypeError and ValueError.

    msgspec writes NaN as null, and bytes in base64: another value than was meant.
    """
    if isinstance(value, dict):
        for key, each in cast("dict[str, object]", value).items():
            _check(each, secrets, key if is_secret(key) or not name else name)
    elif isinstance(value, list):
        for each in cast("list[object]", value):
            _check(each, secrets, name)
    elif isinstance(value, bytes | bytearray):
        raise TypeError("json has bytes: give a str")
    elif isinstance(value, float) and not isfinite(value):
        raise ValueError("json has a number that is not finite, which JSON lacks")
    elif isinstance(value, str) and is_secret(name):
        secrets.add(value)

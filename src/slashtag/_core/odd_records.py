"""Records with members that cannot be read: these are None, so that one odd record hides no other."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from typing import Any, TypeVar, get_args, get_origin

import msgspec
from msgspec.structs import FieldInfo, fields, replace

from .._models import Page
from .._records import Record

R = TypeVar("R", bound=Record)

#: Characters that are shown of what cannot be read.
SHOWN = 60
#: Takes each member that is None because it cannot be read, in words.
ReportUnreadable = Callable[[str], object]


def read_members(returns: Any, data: Any, report: ReportUnreadable) -> Any:
    """Return the record or the page of `data`, member by member; raises msgspec.ValidationError.

    Only an id, and the members of the page itself, are indispensable.
    """
    if get_origin(returns) is not Page:
        return _record(returns, msgspec.convert(data, dict[str, Any]), report)
    page: Page[dict[str, Any]] = msgspec.convert(data, Page[dict[str, Any]], strict=False)
    return replace(page, items=[_record(get_args(returns)[0], item, report) for item in page.items])


def _record(kind: type[R], data: dict[str, Any], report: ReportUnreadable) -> R:
    id = msgspec.convert(data.get("id"), int, strict=False)
    members: dict[str, Any] = {}
    for field in _fields(kind):
        given = data.get(field.encode_name)
        try:
            members[field.name] = _member(field, given)
        except msgspec.ValidationError:
            members[field.name] = None
            report(f"{field.encode_name} of the {kind.__name__} {id}: {repr(given)[:SHOWN]}")
    return kind(**members)


def _member(field: FieldInfo, given: Any) -> Any:
    try:
        return msgspec.convert(given, field.type, strict=False)
    except msgspec.ValidationError:
        if not field.name.endswith("_at") or not isinstance(given, str):
            raise
    # A time with a zone, which the others lack.
    return msgspec.convert(given, datetime).replace(tzinfo=None)


_fields = lru_cache(maxsize=8)(fields)

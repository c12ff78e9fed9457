"""One API call as a picklable value."""

from datetime import datetime
from typing import Any, Generic, Literal, TypeVar
from urllib.parse import quote

from msgspec import Struct

from .scrubber import HIDDEN, is_secret

T_co = TypeVar("T_co", covariant=True)

Repeat = Literal["always", "if not done", "if unsent", "never"]

#: Characters that a log shows as they are in the value of a parameter.
_SHOWN = "/:@,+ "


class Call(Struct, Generic[T_co], frozen=True, kw_only=True, gc=False):
    """One API call: the request, and the type of the answer's `data`.

    `path` is relative to /api/v1 and already percent-encoded; `params` are not encoded. `repeat` says after
    which failures it may be sent again: all of them, those after which it cannot have been done, only if
    nothing was sent, or none (see `retry.py`). A journal may keep the answer if the period that the call asks
    about had ended; `period_end` is its last second (None: it never ends). `again` makes it a second
    request: past caches, over a connection of its own, and never from a journal, where its answer replaces
    the first. An answer that was made before `made_after` (epoch seconds) is an error. `link_ids` are those
    of its selector, by which a journal knows what it is about. `secrets` are strings (a link's password) that
    no error and no log may show.
    """

    method: str
    path: str
    returns: type[T_co]
    params: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    repeat: Repeat = "always"
    secrets: tuple[str, ...] = ()
    again: bool = False
    made_after: float | None = None
    period_end: datetime | None = None
    link_ids: tuple[tuple[int, ...], ...] = ()

    @property
    def keys(self) -> tuple[str, ...]:
        """The slashtags of a statistics call; empty if it selects a tag."""
        joined = dict(self.params).get("url_keys")
        return tuple(joined.split(",")) if joined else ()

    def redacted(self) -> str:
        """Return the method and the target as a log shows them, without secrets."""
        # Not all of a hundred slashtags.
        cut = ((k, v[:99] + "..." * (len(v) > 99)) for k, v in self.params)
        shown = (f"{k}={HIDDEN if is_secret(k) else quote(v, safe=_SHOWN)}" for k, v in cut)
        return f"{self.method} {self.path}?{'&'.join(shown)}".removesuffix("?")

    def log_fields(self, error: Exception | None) -> dict[str, Any]:
        """Return what log records tell of the call and its error; docs/python.md has the meaning."""
        fields = {"method": self.method, "path": self.path}
        if error is None:
            return fields
        told = {name: getattr(error, name, None) for name in ("status", "request_id")}
        return fields | {"error": type(error).__name__} | told

    def __repr__(self) -> str:
        # Without the body, which may contain a password, and without up to 100 slashtags.
        return f"<Call {self.method} {self.path}>"

    def __rich_repr__(self) -> Any:
        yield repr(self)

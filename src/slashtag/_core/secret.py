"""Text that no repr shows."""

from __future__ import annotations

from typing import SupportsIndex


class Secret(str):
    """A str that goes where it is sent, and that no repr shows, and so no traceback with its variables.

    `str(secret)` is an ordinary str, as msgspec needs it.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"

    def __getitem__(self, index: SupportsIndex | slice) -> Secret:
        # rich shows the start of a long text.
        return Secret(super().__getitem__(index))

    def __deepcopy__(self, memo: object) -> Secret:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a secret is not pickled; pass credentials to each process in its environment")


def hidden(text: str | None) -> Secret | None:
    """Return a str as a Secret, anything else as it is."""
    return Secret(text) if isinstance(text, str) else text

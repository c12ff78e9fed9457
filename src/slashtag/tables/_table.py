"""A table's columns and rows, what writes them, and what a file says of itself."""

from collections.abc import Iterable, Mapping
from datetime import date, datetime
from typing import Protocol, Self

import msgspec

from .._arrow import Kind

Row = tuple[str | int | float | date | datetime | None, ...]


class Column(msgspec.Struct, frozen=True):
    """A column: its name and the kind of its values."""

    name: str
    kind: Kind = "text"


class Table(msgspec.Struct, frozen=True):
    """The columns of a table."""

    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(column.name for column in self.columns)


class About(msgspec.Struct, frozen=True, kw_only=True):
    """What a file says of itself; "" is not told.

    `account` is the address of the service and a name, never a credential; `collected` the time at which the
    rows were complete (ISO 8601); `timezone` that of the days; `span` and `compared_with` are days, as
    2026-10-01..2026-10-31; `selected` says which links were counted, if not all, and from which country their
    clicks; `missing` names what failed.

    A workbook has it on a sheet `about`, a Parquet file in its metadata. `str` of it is one line, for formats
    that have no place.
    """

    account: str = ""
    collected: str = ""
    timezone: str = ""
    span: str = ""
    compared_with: str = ""
    selected: str = ""
    complete: bool = True
    missing: str = ""

    @classmethod
    def of(cls, texts: Mapping[str, str]) -> Self | None:
        """Return what was read back from a file; None for what another program wrote."""
        return msgspec.convert(texts, cls, strict=False) if "complete" in texts else None

    @property
    def texts(self) -> dict[str, str]:
        """What is told, by name."""
        told = msgspec.structs.asdict(self)
        return {
            name: str(each).lower() if isinstance(each, bool) else each
            for name, each in told.items()
            if each != ""
        }

    def __str__(self) -> str:
        return ", ".join(f"{name.replace('_', ' ')}: {text}" for name, text in self.texts.items())


class Writer(Protocol):
    """Writer of rows. `about` is what the file says of itself; it may be set until `close`."""

    about: About | None = None

    def write(self, rows: Iterable[Row], /) -> None: ...

    def close(self) -> None:
        """Write what the format needs at its end, if anything; the file itself stays open."""

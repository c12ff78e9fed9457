"""A file that holds one table."""

from __future__ import annotations

import os
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from ._table import Row, Table
from ._target import AtomicFile, checked_path
from ._writers import format_of, open_writer


class TableFile:
    """Writer of a table to a file that appears whole or not at all; the ending of its name is the format.

    Also a context manager, which removes the file on an error.
    Raises ExportError as AtomicFile and the writers do.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        table: Table,
        *,
        excel_safe: bool = False,
    ) -> None:
        form = format_of(checked_path(path))
        self._target = AtomicFile(path)
        try:
            self._writer = open_writer(form, self._target.file, table, excel_safe=excel_safe)
        except BaseException:
            self._target.discard()
            raise

    def write(self, rows: Iterable[Row], /) -> None:
        """Write rows."""
        self._writer.write(rows)

    def close(self) -> None:
        """Complete the file and give it its name."""
        try:
            self._writer.close()
            self._target.commit()
        except BaseException:
            self.abandon()
            raise

    def abandon(self) -> None:
        """Remove the file; safe to repeat, and without effect once closed."""
        self._writer.abandon()
        self._target.discard()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.abandon()

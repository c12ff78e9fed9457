"""Writer of an Excel workbook."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from tempfile import TemporaryDirectory
from typing import Any

from .. import ExportError
from ._table import Row, Table

#: What a sheet holds, and the largest integer that Excel keeps exactly.
MOST_ROWS, MOST_CHARACTERS, EXACT = 1_048_575, 32_767, 2**53
_FORMATS = {"date": "yyyy-mm-dd", "timestamp": "yyyy-mm-dd hh:mm:ss", "int": "#,##0", "float": "0.0"}
_WIDTHS = {"text": 32, "timestamp": 19}


class XlsxWriter:
    """Writer of one sheet with typed cells and a header that stays in view; needs the extra `xlsx`.

    Texts are never formulas or links. Raises ExportError for more than a sheet or a cell holds.
    """

    def __init__(self, file: Any, table: Table) -> None:
        try:
            xlsxwriter = import_module("xlsxwriter")
        except ImportError:
            raise ExportError('a workbook needs xlsxwriter: pip install "slashtag[xlsx]"') from None
        #: Of the temporary files of sheets.
        self._errors = (OSError, xlsxwriter.exceptions.XlsxFileError)
        # A folder of its own: xlsxwriter leaves its temporary files behind when the disk is full.
        self._folder = TemporaryDirectory(prefix="slashtag-", ignore_cleanup_errors=True)
        options = {"constant_memory": True, "tmpdir": self._folder.name}
        self._book: Any = xlsxwriter.Workbook(file, options)
        self._sheet = self._book.add_worksheet()
        self._names = table.names
        self._rows = 0
        formats = {kind: self._book.add_format({"num_format": form}) for kind, form in _FORMATS.items()}
        self._formats = [
            None
            if column.name == "id" or column.name.endswith(("_id", "_code"))
            else formats.get(column.kind)
            for column in table.columns
        ]
        for n, column in enumerate(table.columns):
            self._sheet.set_column(n, n, _WIDTHS.get(column.kind, 12))
        self._sheet.freeze_panes(1, 0)
        self._sheet.write_row(0, 0, table.names, self._book.add_format({"bold": True}))

    def write(self, rows: Iterable[Row], /) -> None:
        for row in rows:
            self._rows += 1
            if self._rows > MOST_ROWS:
                raise ExportError(f"a sheet holds {MOST_ROWS:,} rows; export to .csv or .parquet")
            try:
                for n, value in enumerate(row):
                    if value is not None:
                        self._write(n, value)
            except self._errors as error:
                raise ExportError(f"the workbook cannot be written: {error}") from None

    def _write(self, n: int, value: Any) -> None:
        if isinstance(value, int) and abs(value) > EXACT:
            value = str(value)
        if not isinstance(value, str):
            self._sheet.write(self._rows, n, value, self._formats[n])
        elif self._sheet.write_string(self._rows, n, value) == -2:
            raise ExportError(f"{self._names[n]} has more than the {MOST_CHARACTERS:,} characters of a cell")

    def close(self) -> None:
        """Complete the workbook and remove its temporary files; safe to repeat."""
        try:
            if not self._book.fileclosed:
                self._book.close()
        except self._errors as error:
            raise ExportError(f"the workbook cannot be written: {error}") from None
        finally:
            for each in self._sheet.fh, self._sheet.row_data_fh:
                with suppress(OSError):
                    each.close()
            self._folder.cleanup()

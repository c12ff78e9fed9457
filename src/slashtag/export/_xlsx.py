"""Writer of an Excel workbook."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

from .. import ExportError
from ._table import Row, Table

#: What one sheet holds, and the largest integer that Excel keeps exactly.
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
        self._book: Any = xlsxwriter.Workbook(file, {"constant_memory": True})
        self._sheet: Any = self._book.add_worksheet()
        self._columns = table.columns
        formats = {kind: self._book.add_format({"num_format": form}) for kind, form in _FORMATS.items()}
        self._formats: list[Any] = []
        for n, (name, kind) in enumerate((column.name, column.kind) for column in table.columns):
            is_code = name == "id" or name.endswith(("_id", "_code"))
            self._formats.append(None if is_code else formats.get(kind))
            self._sheet.set_column(n, n, _WIDTHS.get(kind, 12))
        self._sheet.freeze_panes(1, 0)
        self._sheet.write_row(0, 0, table.names, self._book.add_format({"bold": True}))
        self._rows = 0

    def write(self, rows: Iterable[Row], /) -> None:
        for row in rows:
            self._rows += 1
            if self._rows > MOST_ROWS:
                raise ExportError(f"a sheet holds {MOST_ROWS:,} rows; export to .csv or .parquet")
            for n, value in enumerate(row):
                if value is not None:
                    self._write(n, value)

    def _write(self, n: int, value: Any) -> None:
        at, form = (self._rows, n), self._formats[n]
        if isinstance(value, bool):
            self._sheet.write_boolean(*at, value)
        elif isinstance(value, int | float) and abs(value) <= EXACT:
            self._sheet.write_number(*at, value, form)
        elif self._columns[n].kind in ("date", "timestamp"):
            self._sheet.write_datetime(*at, value, form)
        elif self._sheet.write_string(*at, str(value)) == -2:
            name = self._columns[n].name
            raise ExportError(f"{name} has more than the {MOST_CHARACTERS:,} characters of a cell")

    def close(self) -> None:
        """Complete the workbook and remove its temporary files; safe to repeat."""
        if not self._book.fileclosed:
            self._book.close()

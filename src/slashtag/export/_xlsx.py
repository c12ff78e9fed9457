"""Writer of an Excel workbook."""

from __future__ import annotations

from collections import Counter
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
    """Writer of sheets with typed cells and a header that stays in view; needs the extra `xlsx`.

    Texts are never formulas or links. Raises ExportError for more than a sheet or a cell holds.
    """

    def __init__(self, file: Any, table: Table) -> None:
        try:
            xlsxwriter = import_module("xlsxwriter")
        except ImportError:
            raise ExportError('a workbook needs xlsxwriter: pip install "slashtag[xlsx]"') from None
        self._book: Any = xlsxwriter.Workbook(file, {"constant_memory": True})
        self._by = None if table.sheet_by is None else table.names.index(table.sheet_by)
        #: The most rows; with several sheets it depends on the rows.
        self.most_rows = MOST_ROWS if self._by is None else None
        self._columns = [column for n, column in enumerate(table.columns) if n != self._by]
        formats = {kind: self._book.add_format({"num_format": form}) for kind, form in _FORMATS.items()}
        self._formats = [
            None if name == "id" or name.endswith(("_id", "_code")) else formats.get(kind)
            for name, kind in ((column.name, column.kind) for column in self._columns)
        ]
        self._bold = self._book.add_format({"bold": True})
        self._sheets: dict[str | None, Any] = {}
        self._rows: Counter[str | None] = Counter()

    def _add_sheet(self, name: str | None) -> None:
        sheet = self._sheets[name] = self._book.add_worksheet(name)
        for n, column in enumerate(self._columns):
            sheet.set_column(n, n, _WIDTHS.get(column.kind, 12))
        sheet.freeze_panes(1, 0)
        sheet.write_row(0, 0, [column.name for column in self._columns], self._bold)

    def write(self, rows: Iterable[Row], /) -> None:
        for row in rows:
            name = None
            if self._by is not None:
                name, row = str(row[self._by]), row[: self._by] + row[self._by + 1 :]
            if name not in self._sheets:
                self._add_sheet(name)
            self._rows[name] += 1
            if self._rows[name] > MOST_ROWS:
                raise ExportError(f"a sheet holds {MOST_ROWS:,} rows; export to .csv or .parquet")
            for n, value in enumerate(row):
                if value is not None:
                    self._write(self._sheets[name], self._rows[name], n, value)

    def _write(self, sheet: Any, row: int, n: int, value: Any) -> None:
        if isinstance(value, int) and abs(value) > EXACT:
            value = str(value)
        if not isinstance(value, str):
            sheet.write(row, n, value, self._formats[n])
        elif sheet.write_string(row, n, value) == -2:
            name = self._columns[n].name
            raise ExportError(f"{name} has more than the {MOST_CHARACTERS:,} characters of a cell")

    def close(self) -> None:
        """Complete the workbook and remove its temporary files; safe to repeat."""
        if not self._sheets:
            self._add_sheet(None)
        if not self._book.fileclosed:
            self._book.close()

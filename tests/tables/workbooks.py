"""Workbooks made by hand, as other writers make them."""

from __future__ import annotations

import io
import zipfile
from xml.sax.saxutils import escape

TYPES = "application/vnd.openxmlformats-officedocument.spreadsheetml"
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"


def row(number: int, *cells: str) -> str:
    """Return a row of cells, each a text, or markup that begins with <."""
    made = [
        cell
        if cell.startswith("<")
        else f'<c r="{chr(ord("A") + n)}{number}" t="inlineStr"><is><t>{escape(cell)}</t></is></c>'
        for n, cell in enumerate(cells)
    ]
    return f'<row r="{number}">{"".join(made)}</row>'


def xlsx(*sheets: str, before: str = "", after: str = "", book: str = "", state: str = "visible") -> bytes:
    """Return a workbook of sheets named S1, S2 ..., each given by its rows; the first has a state."""
    numbers = range(1, len(sheets) + 1)
    parts = "".join(
        f'<Override PartName="/xl/worksheets/sheet{n}.xml" ContentType="{TYPES}.worksheet+xml"/>'
        for n in numbers
    )
    links = "".join(
        f'<Relationship Id="r{n}" Type="{RELATIONS}/worksheet" Target="worksheets/sheet{n}.xml"/>'
        for n in numbers
    )
    named = "".join(
        f'<sheet name="S{n}" sheetId="{n}" r:id="r{n}" state="{state if n == 1 else "visible"}"/>'
        for n in numbers
    )
    held = {
        "[Content_Types].xml": f'<Types xmlns="{PACKAGE}/content-types">'
        f'<Override PartName="/xl/workbook.xml" ContentType="{TYPES}.sheet.main+xml"/>{parts}</Types>',
        "_rels/.rels": f'<Relationships xmlns="{PACKAGE}/relationships"><Relationship Id="r1" '
        f'Type="{RELATIONS}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{PACKAGE}/relationships">{links}'
        "</Relationships>",
        "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{RELATIONS}"><sheets>{named}</sheets>'
        f"{book}</workbook>",
    }
    for n, rows in zip(numbers, sheets, strict=True):
        held[f"xl/worksheets/sheet{n}.xml"] = (
            f'<worksheet xmlns="{MAIN}">{before}<sheetData>{rows}</sheetData>{after}</worksheet>'
        )
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in held.items():
            archive.writestr(name, content)
    return file.getvalue()

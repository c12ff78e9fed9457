"""Workbooks made by hand, as other writers make them."""

from __future__ import annotations

import io
import zipfile
from xml.sax.saxutils import escape

TYPES = "application/vnd.openxmlformats-officedocument.spreadsheetml"
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"


def text(name: str, value: str) -> str:
    """Return a cell with a text."""
    return f'<c r="{name}" t="inlineStr"><is><t xml:space="preserve">{escape(value)}</t></is></c>'


def row(number: int, *cells: str) -> str:
    """Return a row of cells, each a text or markup that begins with <."""
    made = [
        cell if cell.startswith("<") else text(f"{chr(ord('A') + n)}{number}", cell)
        for n, cell in enumerate(cells)
    ]
    return f'<row r="{number}">{"".join(made)}</row>'


def xlsx(
    *sheets: str, dimension: str = "", after: str = "", book: str = "", shared: str = "", state: str = ""
) -> bytes:
    """Return a workbook of sheets named S1, S2 ..., each given by its rows; the first may have a state."""
    file = io.BytesIO()
    numbers = range(1, len(sheets) + 1)
    with zipfile.ZipFile(file, "w") as archive:
        parts = "".join(
            f'<Override PartName="/xl/worksheets/sheet{n}.xml" ContentType="{TYPES}.worksheet+xml"/>'
            for n in numbers
        )
        archive.writestr(
            "[Content_Types].xml",
            f'<Types xmlns="{PACKAGE}/content-types"><Default Extension="xml" ContentType="application/xml"/>'
            f'<Override PartName="/xl/workbook.xml" ContentType="{TYPES}.sheet.main+xml"/>{parts}</Types>',
        )
        archive.writestr(
            "_rels/.rels",
            f'<Relationships xmlns="{PACKAGE}/relationships"><Relationship Id="r1" '
            f'Type="{RELATIONS}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        )
        links = "".join(
            f'<Relationship Id="r{n}" Type="{RELATIONS}/worksheet" Target="worksheets/sheet{n}.xml"/>'
            for n in numbers
        )
        archive.writestr(
            "xl/_rels/workbook.xml.rels",
            f'<Relationships xmlns="{PACKAGE}/relationships">{links}</Relationships>',
        )
        named = "".join(
            f'<sheet name="S{n}" sheetId="{n}" r:id="r{n}"{f" state={state!r}" if state and n == 1 else ""}/>'
            for n in numbers
        )
        archive.writestr(
            "xl/workbook.xml",
            f'<workbook xmlns="{MAIN}" xmlns:r="{RELATIONS}"><sheets>{named}</sheets>{book}</workbook>',
        )
        if shared:
            archive.writestr("xl/sharedStrings.xml", f'<sst xmlns="{MAIN}">{shared}</sst>')
        for n, rows in zip(numbers, sheets, strict=True):
            archive.writestr(
                f"xl/worksheets/sheet{n}.xml",
                f'<worksheet xmlns="{MAIN}">{dimension}<sheetData>{rows}</sheetData>{after}</worksheet>',
            )
    return file.getvalue()


OFFICE = "urn:oasis:names:tc:opendocument:xmlns"
CALC = "urn:org:documentfoundation:names:experimental:calc:xmlns:calcext:1.0"


def ods(rows: str) -> bytes:
    """Return a workbook of LibreOffice's format with one sheet, given by the markup of its rows."""
    file = io.BytesIO()
    kind = "application/vnd.oasis.opendocument.spreadsheet"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("mimetype", kind)
        archive.writestr(
            "META-INF/manifest.xml",
            f'<manifest:manifest xmlns:manifest="{OFFICE}:manifest:1.0"><manifest:file-entry '
            f'manifest:full-path="/" manifest:media-type="{kind}"/></manifest:manifest>',
        )
        archive.writestr(
            "content.xml",
            f'<office:document-content xmlns:office="{OFFICE}:office:1.0" xmlns:table="{OFFICE}:table:1.0" '
            f'xmlns:text="{OFFICE}:text:1.0" xmlns:calcext="{CALC}"><office:body><office:spreadsheet>'
            f'<table:table table:name="S1">{rows}</table:table>'
            "</office:spreadsheet></office:body></office:document-content>",
        )
    return file.getvalue()


END = "</table:table-cell>"


def ods_row(*cells: str, repeated: int = 1) -> str:
    """Return a row of .ods, of texts or markup that begins with <."""
    made = [
        cell
        if cell.startswith("<")
        else f'<table:table-cell office:value-type="string"><text:p>{escape(cell)}</text:p>{END}'
        for cell in cells
    ]
    return f'<table:table-row table:number-rows-repeated="{repeated}">{"".join(made)}</table:table-row>'

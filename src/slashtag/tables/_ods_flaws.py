"""What python-calamine leaves out of .ods, an archive of XML."""

from xml.etree import ElementTree
from zipfile import ZipFile

from ._flaws import Flaws, Wrong, check_encoding, local_name


def flaws_of_ods(archive: ZipFile) -> dict[str, Flaws]:
    """Return what is found in each sheet of an archive, by its name."""
    check_encoding(archive, "content.xml")
    found: dict[str, Flaws] = {}
    flaws, row = Flaws(), 0
    with archive.open("content.xml") as file:
        for event, each in ElementTree.iterparse(file, ("start", "end")):
            tag = local_name(each.tag)
            if event == "start" and tag == "table":
                name = next((value for key, value in each.items() if local_name(key) == "name"), "")
                flaws, row = found.setdefault(name, Flaws()), 0
            elif event == "end" and tag == "table-row":
                rows = _given(each).get("number-rows-repeated", "1")
                _add_row_of_ods(flaws, each, row, int(rows))
                row += int(rows)
                each.clear()
    return found


def _given(element: ElementTree.Element) -> dict[str, str]:
    """Return the attributes by their names, where several are of the same name that of the extension."""
    given: dict[str, str] = {}
    for name, value in element.items():
        key = local_name(name)
        given["extended-type" if key == "value-type" and "calc" in name else key] = value
    return given


def _add_row_of_ods(flaws: Flaws, element: ElementTree.Element, row: int, rows: int) -> None:
    column = 0
    for cell in element:
        given = _given(cell)
        columns = int(given.get("number-columns-repeated", "1"))
        if local_name(cell.tag) == "covered-table-cell":
            covered = Wrong("a cell that is merged with another")
            flaws.areas.append((row, column, row + rows - 1, column + columns - 1, covered))
        elif "value-type" in given or "formula" in given:
            flaws.add(row, column, _wrong_of_ods(cell, given), rows, columns)
        column += columns


def _wrong_of_ods(cell: ElementTree.Element, given: dict[str, str]) -> Wrong | None:
    if given.get("extended-type") == "error":
        return Wrong("".join(cell.itertext()) or "an error value")
    if "value-type" not in given:
        return Wrong("a formula without a value")
    # So LibreOffice writes a boolean that it read from another format.
    if (formula := given.get("formula", "")).endswith(("=TRUE()", "=FALSE()")):
        return Wrong(formula.rpartition("=")[2].removesuffix("()"))
    # The library leaves them out of a text.
    if any(local_name(part.tag) in ("tab", "line-break") for part in cell.iter()):
        return Wrong("a tab or a break in a line, which is not read from .ods")
    return None

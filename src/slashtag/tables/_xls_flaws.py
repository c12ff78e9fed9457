"""What python-calamine leaves out of .xls, a file of streams, one of which has the records of a workbook.

The layouts are those of MS-CFB (the streams) and MS-XLS (the records).
"""

from collections.abc import Iterator
from struct import iter_unpack, unpack_from

from .. import InvalidRequestError
from ._flaws import Flaws, Wrong

#: Records: the name of a sheet, the beginning and the end of a part, encryption, merged cells.
_SHEET, _BEGIN, _END, _ENCRYPTED, _MERGED = 0x0085, 0x0809, 0x000A, 0x002F, 0x00E5
#: Records of one cell, of which these two may hold an error; of several cells.
_ERROR, _FORMULA, _CELLS = 0x0205, 0x0006, {0x0203, 0x027E, 0x00FD, 0x0204, 0x00D6}
_SEVERAL = 0x00BD
_ERRORS = {
    0x00: "#NULL!",
    0x07: "#DIV/0!",
    0x0F: "#VALUE!",
    0x17: "#REF!",
    0x1D: "#NAME?",
    0x24: "#NUM!",
    0x2A: "#N/A",
    0x2B: "#GETTING_DATA",
}
#: Numbers of sectors from here on say that none follows.
_NO_SECTOR = 0xFFFFFFFA


def flaws_of_xls(data: bytes) -> dict[str, Flaws]:
    """Return what is found in each sheet, by its name; raises InvalidRequestError for encrypted files."""
    streams = dict(_streams(data))
    if "Workbook" not in streams:
        is_encrypted = "EncryptedPackage" in streams
        raise InvalidRequestError(
            "is protected by a password" if is_encrypted else "is no workbook that is read"
        )
    stream = streams["Workbook"]
    found: dict[str, Flaws] = {}
    for kind, at, _ in _records(stream, 0):
        if kind == _ENCRYPTED:
            raise InvalidRequestError("is protected by a password")
        if kind == _SHEET:
            begin, length, is_wide = *unpack_from("<I", stream, at), stream[at + 6], stream[at + 7] & 1
            name = stream[at + 8 : at + 8 + length * (1 + is_wide)]
            found[name.decode("utf-16-le" if is_wide else "latin-1")] = _of_sheet(stream, begin)
    return found


def _of_sheet(stream: bytes, begin: int) -> Flaws:
    flaws = Flaws()
    for kind, at, length in _records(stream, begin):
        if kind == _MERGED:
            for top, bottom, left, right in iter_unpack("<4H", stream[at + 2 : at + length]):
                covered = Wrong("a cell that is merged with another")
                flaws.areas.append((top, left + 1, top, right, covered))
                flaws.areas.append((top + 1, left, bottom, right, covered))
        elif kind == _SEVERAL:
            row, first = unpack_from("<2H", stream, at)
            (last,) = unpack_from("<H", stream, at + length - 2)
            flaws.add(row, first, columns=last + 1 - first)
        elif kind in _CELLS or kind in (_ERROR, _FORMULA):
            error = None
            if kind == _ERROR and stream[at + 7]:
                error = stream[at + 6]
            # A value that is no number ends in these bytes, and begins with its kind.
            elif kind == _FORMULA and stream[at + 12 : at + 14] == b"\xff\xff" and stream[at + 6] == 2:
                error = stream[at + 8]
            wrong = None if error is None else Wrong(_ERRORS.get(error, "an error value"))
            row, column = unpack_from("<2H", stream, at)
            flaws.add(row, column, wrong)
    return flaws


def _records(stream: bytes, at: int) -> Iterator[tuple[int, int, int]]:
    """Yield kind, position and length of the records of a part, and of the parts in it such as charts."""
    depth = 0
    while True:
        kind, length = unpack_from("<2H", stream, at)
        depth += (kind == _BEGIN) - (kind == _END)
        if not depth:
            return
        if depth == 1:
            yield kind, at + 4, length
        at += 4 + length


def _streams(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the content of each stream."""
    (shift,) = unpack_from("<H", data, 0x1E)
    (directory,) = unpack_from("<I", data, 0x30)
    small_below, small_table = unpack_from("<2I", data, 0x38)
    listed, count = unpack_from("<2I", data, 0x44)
    tables = list(unpack_from("<109I", data, 0x4C))
    per_sector = (1 << shift) // 4
    for _ in range(count):
        *more, listed = unpack_from(f"<{per_sector}I", data, (listed + 1) << shift)
        tables += more

    def sectors(numbers: list[int]) -> bytes:
        return b"".join(data[(n + 1) << shift : (n + 2) << shift] for n in numbers)

    def integers(content: bytes) -> list[int]:
        return [n for (n,) in iter_unpack("<I", content)]

    following = integers(sectors([n for n in tables if n < _NO_SECTOR]))
    entries = sectors(_chain(following, directory))
    small_following = integers(sectors(_chain(following, small_table)))
    small = b""
    for at in range(0, len(entries), 128):
        length, kind = unpack_from("<HB", entries, at + 64)
        first, size = unpack_from("<2I", entries, at + 116)
        name = entries[at : at + max(length - 2, 0)].decode("utf-16-le")
        if kind == 5:  # the first entry, which holds the small streams
            small = sectors(_chain(following, first))
        elif kind == 2 and size < small_below:
            numbers = _chain(small_following, first)
            yield name, b"".join(small[n * 64 : n * 64 + 64] for n in numbers)[:size]
        elif kind == 2:
            yield name, sectors(_chain(following, first))[:size]


def _chain(following: list[int], first: int) -> list[int]:
    """Return the numbers of a chain of sectors; raises ValueError where it goes in a circle."""
    found: list[int] = []
    while first < _NO_SECTOR:
        found.append(first)
        if len(found) > len(following):
            raise ValueError("sectors go in a circle")
        first = following[first]
    return found

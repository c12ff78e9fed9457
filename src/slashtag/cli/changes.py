"""Changes of many links as a CSV file: read, checked whole, told apart."""

import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

import msgspec
import typer

from .. import Change, InvalidRequestError, ShortUrl
from .._core.call import REDIRECT_CODES
from .._core.change import conflicts

KEYS = ("slashtag", "id")
MEMBERS = {
    "destination": "destination",
    "new_slashtag": "slashtag",
    "redirect_code": "redirect_code",
    "password": "password",
    "domain_id": "domain_id",
}
COLUMNS = (*KEYS, *MEMBERS)
_NUMBERS = ("id", "redirect_code", "domain_id")
#: So many digits fit into 64 bits whatever they are.
MAX_DIGITS = 18


@dataclass(frozen=True)
class Row:
    """Hold one change and the line of the file on which it begins."""

    line: int
    change: Change


@dataclass
class Problems:
    """Collect what is wrong with a file, by line."""

    found: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])

    def add(self, line: int, text: str) -> None:
        """Take one."""
        self.found.append((line, text))

    def told(self) -> Iterator[str]:
        """Yield them in the order of the lines."""
        for line, text in sorted(self.found):
            yield f"line {line}: {text}"


def read_changes(path: Path, problems: Problems) -> list[Row]:
    """Read a file of changes; what is wrong with it goes to `problems`, which never show a password.

    An empty cell leaves its member out. Raises BadParameter for what is no CSV file in UTF-8.
    """
    if not path.is_file():
        raise typer.BadParameter(f"--from names no file: {path}")
    rows: list[Row] = []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            header = next(reader, list[str]())
            if not _is_header(header, problems):
                return []
            before = reader.line_num
            for cells in reader:
                line, before = before + 1, reader.line_num
                if any(cells):
                    row = _row(line, header, cells, problems)
                    rows += [row] if row is not None else []
    except (UnicodeDecodeError, csv.Error):
        raise typer.BadParameter(f"{path} is not a CSV file in UTF-8") from None
    _check_distinct(rows, problems)
    return rows


def _is_header(header: list[str], problems: Problems) -> bool:
    for name in header:
        if name not in COLUMNS:
            problems.add(1, f"no column can be called {name!r}; there are {', '.join(COLUMNS)}")
    if len(set(header)) < len(header):
        problems.add(1, "a column is there twice")
    if not set(KEYS) & set(header):
        problems.add(1, "there must be a column slashtag or id")
    return not problems.found


def _row(line: int, header: list[str], cells: list[str], problems: Problems) -> Row | None:
    if len(cells) != len(header):
        problems.add(line, f"{len(cells)} cells, and {len(header)} columns")
        return None
    given: dict[str, str | int] = {}
    good = True
    for name, cell in zip(header, cells, strict=True):
        if name in _NUMBERS and cell:
            if not (cell.isascii() and cell.isdecimal() and len(cell) <= MAX_DIGITS):
                problems.add(line, f"{name} must be a number, not {cell!r}")
                good = False
                continue
            given[name] = int(cell)
        elif cell:
            given[name] = cell
    keys = [given[name] for name in KEYS if name in given]
    if len(keys) != 1:
        if good:
            problems.add(line, "there must be a slashtag or an id, and not both")
        return None
    members = {member: given[name] for name, member in MEMBERS.items() if name in given}
    change = msgspec.convert({"key": keys[0], **members}, Change)
    if not good:
        return None
    try:
        change.call()
    except InvalidRequestError as error:
        problems.add(
            line, str(error).replace("pass the link's id as an int", "give its id, in the column id")
        )
        return None
    return Row(line, change)


def _check_distinct(rows: list[Row], problems: Problems) -> None:
    for found in conflicts(row.change for row in rows):
        row, line = rows[found.at], rows[found.other].line
        key, new = row.change.key, row.change.slashtag
        text = {
            "key": f"{key!r} is changed on line {line} already",
            "slashtag": f"the link of line {line} is renamed to {new!r} too",
            "swap": f"{new!r}, which line {line} changes, cannot be a new slashtag as well",
        }
        problems.add(row.line, text[found.rule])


def fingerprint(change: Change, base_url: str, apikey: str, apisecret: str) -> str:
    """Return what tells a change of one account from others.

    Keyed, so that nobody without the apisecret can try passwords on it.
    """
    members = [getattr(change, name) for name in change.__struct_fields__]
    return _mark(members, base_url, apikey, apisecret)


def link_marks(change: Change, base_url: str, apikey: str, apisecret: str) -> tuple[str, ...]:
    """Return what tells the link of a change from others: as the change names it, and by its new slashtag."""
    names = [change.key] if change.slashtag is None else [change.key, change.slashtag]
    return tuple(_mark(name, base_url, apikey, apisecret) for name in names)


def _mark(what: object, base_url: str, apikey: str, apisecret: str) -> str:
    text = msgspec.json.encode([base_url, apikey, what])
    return blake2b(text, key=apisecret.encode(), digest_size=16).hexdigest()


class Links:
    """Find the links of an account by slashtag and id."""

    def __init__(self, urls: Iterable[ShortUrl]) -> None:
        self._by_id: dict[int, ShortUrl] = {}
        self._by_slashtag: dict[str, list[ShortUrl]] = {}
        for url in urls:
            self._by_id[url.id] = url
            self._by_slashtag.setdefault(url.slashtag, []).append(url)

    def find(self, key: str | int) -> list[ShortUrl]:
        """Return the links that a key means; more than one where several domains have the slashtag."""
        if isinstance(key, int):
            return [self._by_id[key]] if key in self._by_id else []
        return self._by_slashtag.get(key, [])

    def resolve(self, rows: Iterable[Row], problems: Problems) -> Mapping[int, ShortUrl]:
        """Return the link of each line; a line without one, or of one that another line has, is a problem."""
        found: dict[int, ShortUrl] = {}
        lines: dict[int, int] = {}
        for row in rows:
            urls = self.find(row.change.key)
            if len(urls) != 1:
                several = "several links have the slashtag {!r}: give the id"
                text = several if urls else "the account has no link {!r}"
                problems.add(row.line, text.format(row.change.key))
            elif urls[0].id in lines:
                problems.add(row.line, f"it is the link of line {lines[urls[0].id]}")
            else:
                lines[urls[0].id] = row.line
                found[row.line] = urls[0]
        return found


def completed(change: Change, url: ShortUrl) -> Change:
    """Return the change, with what the listing tells of the link for members that it leaves out.

    It names the link by id: a rename may then be repeated.
    """
    code = url.redirect_code if url.redirect_code in REDIRECT_CODES else None
    return Change(
        url.id,
        change.destination or url.destination or None,
        change.slashtag,
        change.redirect_code or code,
        change.password,
        change.domain_id,
    )


def differences(change: Change, url: ShortUrl) -> Iterator[tuple[str, str, str]]:
    """Yield (member, what it is, what it becomes) of what a change changes, or may change."""
    for name, now in (
        ("destination", url.destination),
        ("slashtag", url.slashtag),
        ("redirect_code", url.redirect_code),
    ):
        new = getattr(change, name)
        if new is not None and new != now:
            yield name, "" if now is None else str(now), str(new)
    # The listing tells neither.
    if change.password is not None:
        yield "password", "?", "***"
    if change.domain_id is not None:
        yield "domain_id", "?", str(change.domain_id)

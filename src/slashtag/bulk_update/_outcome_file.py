"""The file of outcomes: what links were before they were changed, and what became of each change.

Its lines, as JSON: a heading; before anything is sent, what each link was and what it is to be (Seen); and
the outcome of each row (RowOutcome), as soon as it is known.
"""

import os
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from functools import partial
from hashlib import blake2b
from pathlib import Path
from secrets import token_hex
from typing import Any, Literal

import msgspec
from filelock import FileLock, Timeout
from msgspec import Struct
from msgspec.structs import replace

from .. import AsyncSession, ExportError
from .._files import sync_folder, writing_to

Status = Literal["done", "failed", "unknown", "changed"]


class Heading(Struct, frozen=True, tag_field="is", tag="heading"):
    """First line; `account` is a hash with the `salt`."""

    salt: str
    account: str = ""


class Seen(Struct, frozen=True, kw_only=True, tag_field="is", tag="link"):
    """A link as it was, and as a row leaves it, in the members that a listing shows.

    `key` is what names it in the row; `hidden` is a keyed hash of what the row gives besides, empty for none;
    `listed_at` is the `updated_at` of a row of a listing.
    """

    id: int
    key: str | int
    base: dict[str, Any]
    after: dict[str, Any]
    hidden: str
    listed_at: str = ""


class RowOutcome(Struct, frozen=True, repr_omit_defaults=True, tag_field="is", tag="outcome"):
    """Outcome of one change: a line of the file of outcomes.

    "done": the service changed `rows_updated` rows; "failed": not done because of `error`; "unknown": the
    answer was lost, so it may have been done; "changed": not sent, as somebody else has changed the link
    since. `id` is that of the link, None if there is not just one, and `slashtag` what it had before.
    """

    line: int
    key: str | int
    status: Status
    rows_updated: int | None = None
    error: str | None = None
    id: int | None = None
    slashtag: str | None = None


_decode = msgspec.json.Decoder(Heading | Seen | RowOutcome).decode


class OutcomeFile:
    """File of outcomes: what earlier runs left, and what this one adds once `see` was called.

    Bound to service and apikey, and not to the apisecret, which may be replaced. Its hashes are keyed, so
    that nobody without the apikey can try passwords on them. Raises ExportError unless it is a file of
    outcomes of this account, or missing.
    """

    def __init__(self, path: Path, session: AsyncSession) -> None:
        self._path = path
        self._file: Any = None
        #: What runs found of each link, by its id, and the hash of what was done that no listing shows.
        self.history = dict[int, list[Seen]]()
        self.done = dict[int, str]()
        #: What links were before the first run, in the members that were to be changed.
        self.undo = dict[int, dict[str, Any]]()
        #: The id by what named the link, which may be another link's slashtag by now.
        self.ids = dict[str | int, int]()
        with writing_to(path):
            content = path.read_bytes() if path.exists() else b""
        # The last line was cut if a run was killed.
        *lines, torn = content.split(b"\n")
        self._length = len(content) - len(torn)
        try:
            entries = list(map(_decode, lines))
            heading = entries[0] if entries else Heading(token_hex(16))
            # Without a whole line there may be the begin of a heading, which begins so.
            if not isinstance(heading, Heading) or not (lines or b'{"is":'.startswith(torn[:6])):
                raise msgspec.DecodeError
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise ExportError(
                f"{path} is no file of outcomes of this version of slashtag, or was edited: what was done is "
                "not known without it"
            ) from None
        key = session._account_key(heading.salt)
        self._key, account = key[32:], key[:32].hex()
        if lines and heading.account != account:
            raise ExportError(
                f"{path} is of another service or apikey; give another file for the outcomes. If the account "
                "is the same, look first what would still change: what was done is not known there"
            )
        #: What is still to be written first.
        self._begin = [] if lines else [replace(heading, account=account)]
        for entry in entries:
            self._take(entry)

    @property
    def undo_path(self) -> Path:
        """The file of changes that undoes these; raises ExportError where it is that of other changes."""
        path = self._path.with_name(f"{self._path.name.removesuffix('.results.jsonl')}.undo.csv")
        if self._begin and path.exists():
            raise ExportError(f"{path} undoes other changes: move it, or give these another name")
        return path

    def _take(self, entry: Heading | Seen | RowOutcome) -> None:
        if isinstance(entry, Seen):
            self.history.setdefault(entry.id, []).append(entry)
            self.ids[entry.key] = entry.id
            replaced = {name: value for name, value in entry.base.items() if value != entry.after[name]}
            self.undo[entry.id] = replaced | self.undo.get(entry.id, {})
            if entry.hidden != self.done.get(entry.id):
                self.done[entry.id] = ""
        elif isinstance(entry, RowOutcome) and entry.id and entry.status == "done":
            self.done[entry.id] = self.history[entry.id][-1].hidden

    def digest(self, values: dict[str, Any]) -> str:
        """Return the keyed hash of values, empty for none."""
        content = msgspec.json.encode(values, enc_hook=str, order="sorted")
        return blake2b(content, key=self._key, digest_size=16).hexdigest() if values else ""

    def see(self, links: list[Seen]) -> None:
        """Record links as they are, and open the file; return once that survives a crash of the machine."""
        with writing_to(self._path):
            # Values of links are nobody else's business.
            self._file = open(self._path, "ab", opener=partial(os.open, mode=0o600))  # noqa: SIM115
            self._file.truncate(self._length)
            self.append(*self._begin, *links)
            os.fsync(self._file.fileno())
            sync_folder(self._path.parent)

    def append(self, *entries: Heading | Seen | RowOutcome) -> None:
        """Record what became known."""
        for entry in entries:
            self._take(entry)
        with writing_to(self._path):
            self._file.write(b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries))
            # What a full disk leaves of a line goes on with the next flush.
            self._file.flush()

    def close(self) -> None:
        """Close the file; safe to repeat."""
        if self._file is not None:
            with suppress(OSError), self._file:  # which `append` has raised
                os.fsync(self._file.fileno())


@contextmanager
def opened(path: Path, session: AsyncSession) -> Generator[OutcomeFile, None, None]:
    """Open a file of outcomes for a run; raises ExportError if another run has it open."""
    with writing_to(path):
        try:
            held = FileLock(f"{path}.lock", blocking=False).acquire()
        except Timeout:
            raise ExportError(f"another run writes to {path}") from None
    with held, closing(OutcomeFile(path, session)) as file:
        yield file

"""The account: links, tags and the click log, in SQLite."""
# ruff: noqa: S608 - only names from this package are put into a query; values are bound

import sqlite3
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from msgspec import Struct

# Labels of a click, in the order in which generate.py makes them: place, agent, referrer. Columns of the log.
LABELS = ("country", "state", "city", "postalcode", "timezone", "device", "browser", "platform", "referrer")
# Visitor of a click; a new one gets a number that is nobody else's.
VISITOR = "coalesce(visitor, -rowid)"
# id -> host; 0 is the service's own domain ("no branded domain").
DOMAINS = {0: "sho.example", 1: "go.example", 2: "link.example", 3: "brand.example"}
# A click row is a few small integers; the texts of labels are in a table of their own. The first link has
# the id 1,000,001, the first tag 501.
_SCHEMA = f"""
CREATE TABLE tag (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, description TEXT NOT NULL,
    created_at INTEGER NOT NULL
);
CREATE INDEX tag_by_date ON tag (created_at, id);
CREATE TABLE link (
    id INTEGER PRIMARY KEY AUTOINCREMENT, slashtag TEXT NOT NULL,
    domain_id INTEGER NOT NULL CHECK (domain_id BETWEEN 0 AND 3),
    destination TEXT NOT NULL, redirect_code INTEGER NOT NULL, password TEXT NOT NULL,
    created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, tag_id INTEGER REFERENCES tag,
    UNIQUE (slashtag, domain_id)
);
CREATE INDEX link_by_date ON link (created_at, id);
CREATE INDEX link_by_tag ON link (tag_id);
INSERT INTO sqlite_sequence (name, seq) VALUES ('link', 1000000), ('tag', 500);
CREATE TABLE label (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
CREATE TABLE click (
    link INTEGER NOT NULL, at INTEGER NOT NULL, visitor INTEGER,
    {" INTEGER NOT NULL, ".join(LABELS)} INTEGER NOT NULL
);
CREATE INDEX click_by_link ON click (link, at);
"""
# A row of `link` without its id, in the order of its columns.
ADD_LINK = "INSERT INTO link VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)"
# Labels with a meaning: not recognised, no referrer, the rest of a map of places.
UNKNOWN = "unknown."
DIRECT = "Direct"
OTHER = "Other"


class Link(NamedTuple):
    """Short URL; times as in answers, `YYYY-MM-DD HH:MM:SS`."""

    id: int
    slashtag: str
    domain_id: int
    destination: str
    redirect_code: int
    password: str
    tag_id: int | None
    created_at: str
    updated_at: str
    hits: int

    @property
    def short_url(self) -> str:
        """The complete short URL."""
        return f"https://{DOMAINS[self.domain_id]}/{self.slashtag}"


class Tag(Struct, frozen=True, rename="camel"):
    """Tag, encoded as the record of docs/service.md, Tag."""

    id: int
    name: str
    description: str
    created_at: str


# Without names for the times: ORDER BY created_at is by the column, which has an index.
_LINKS = """
SELECT id, slashtag, domain_id, destination, redirect_code, password, tag_id,
    datetime(created_at, 'unixepoch'), datetime(updated_at, 'unixepoch'),
    (SELECT count(*) FROM click WHERE click.link = link.id)
FROM link """
_TAGS = "SELECT id, name, description, datetime(created_at, 'unixepoch') FROM tag "


# Id of the link, Unix seconds, visitor (None: a new one), and the ids of LABELS.
Click = tuple[int | None, ...]


class Store:
    """One account, in memory or in a file. Usable from several threads.

    A file that already holds an account is opened as it is. A new one is filled, and keeps nothing before all
    is there, as a process may be killed. Raises sqlite3.Error for another file.
    """

    def __init__(self, path: str | Path | None, fill: Callable[[Self], None]) -> None:
        self._lock = threading.RLock()
        self._db = sqlite3.connect(path or ":memory:", isolation_level=None, check_same_thread=False)
        # Text of each label by id.
        self.labels: dict[int, str] = {}
        self._label_ids: dict[str, int] = {}
        self._log: tuple[int, list[Any]] = (-1, [])
        try:
            self._db.execute("PRAGMA synchronous = OFF")  # a file has to survive the process, not the machine
            if self.rows("SELECT 1 FROM sqlite_master"):
                self.labels |= self.rows("SELECT id, text FROM label")
                self._label_ids |= {text: id for id, text in self.labels.items()}
            else:
                self._db.executescript(f"BEGIN; {_SCHEMA}")
                fill(self)
                self._db.commit()
        except BaseException:
            self._db.close()
            raise

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._db.close()

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return every row of a query."""
        with self._lock:
            return self._db.execute(sql, values).fetchall()

    def write(self, sql: str, values: Sequence[object]) -> int:
        """Execute one statement and return the id of the row that it inserted, if any.

        Raises sqlite3.IntegrityError if a name is taken, or a slashtag on its domain.
        """
        with self._lock:
            return self._db.execute(sql, values).lastrowid or 0

    def insert(self, sql: str, rows: Iterable[Sequence[object]]) -> None:
        """Insert many rows."""
        with self._lock:
            self._db.executemany(sql, rows)

    def links(self, clauses: str = "", values: Sequence[object] = ()) -> list[Link]:
        """Return the links that the SQL clauses after FROM select; every link by default."""
        return [Link(*row) for row in self.rows(_LINKS + clauses, values)]

    def tags(self, clauses: str = "", values: Sequence[object] = ()) -> list[Tag]:
        """Return the tags that the SQL clauses after FROM select; every tag by default."""
        return [Tag(*row) for row in self.rows(_TAGS + clauses, values)]

    def add_tag(self, name: str, description: str, created_at: int) -> Tag:
        """Insert a tag and return it with its id."""
        id = self.write("INSERT INTO tag VALUES (NULL, ?, ?, ?)", (name, description, created_at))
        return self.tags("WHERE id = ?", (id,))[0]

    def label_ids(self, texts: Collection[str]) -> tuple[int, ...]:
        """Return the ids of labels, adding those that are new."""
        with self._lock:
            for text in texts:
                if text not in self._label_ids:
                    id = self.write("INSERT INTO label (text) VALUES (?)", (text,))
                    self._label_ids[text], self.labels[id] = id, text
            return tuple(self._label_ids[text] for text in texts)

    def log(self) -> list[Any]:
        """Return all clicks as Click tuples, each with a visitor; it may be the list returned before."""
        with self._lock:
            changes = self._db.total_changes
            if self._log[0] != changes:
                sql = f"SELECT link, at, {VISITOR}, {', '.join(LABELS)} FROM click"
                self._log = changes, self.rows(sql)
            return self._log[1]

    def add_clicks(self, clicks: Iterable[Click]) -> None:
        """Append clicks; queries are fastest if they are sorted by link and instant."""
        self.insert(f"INSERT INTO click VALUES (?, ?, ?{', ?' * len(LABELS)})", clicks)

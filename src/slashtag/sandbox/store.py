"""The account: links, tags and the click log, in SQLite."""
# ruff: noqa: S608 - only names from this package are put into a query; values are bound

import sqlite3
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct

# A click row is a few small integers; labels are in tables of their own. Every query selects by the log's
# primary key, and without a rowid the table is its own covering index.
_SCHEMA = """
CREATE TABLE tag (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, description TEXT NOT NULL,
    created_at INTEGER NOT NULL
);
CREATE INDEX tag_by_date ON tag (created_at, id);
CREATE TABLE link (
    id INTEGER PRIMARY KEY AUTOINCREMENT, slashtag TEXT NOT NULL, domain_id INTEGER NOT NULL,
    destination TEXT NOT NULL, redirect_code INTEGER NOT NULL, password TEXT NOT NULL,
    created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, tag_id INTEGER REFERENCES tag,
    UNIQUE (slashtag, domain_id)
);
CREATE INDEX link_by_date ON link (created_at, id);
CREATE INDEX link_by_tag ON link (tag_id);
CREATE TABLE place (
    id INTEGER PRIMARY KEY, country TEXT NOT NULL, state TEXT NOT NULL, city TEXT NOT NULL,
    postalcode TEXT NOT NULL, timezone TEXT NOT NULL, UNIQUE (country, state, city, postalcode, timezone)
);
CREATE TABLE agent (
    id INTEGER PRIMARY KEY, device TEXT NOT NULL, browser TEXT NOT NULL, platform TEXT NOT NULL,
    UNIQUE (device, browser, platform)
);
CREATE TABLE referrer (id INTEGER PRIMARY KEY, referrer TEXT NOT NULL UNIQUE);
CREATE TABLE click (
    link INTEGER NOT NULL, at INTEGER NOT NULL, n INTEGER NOT NULL, place INTEGER NOT NULL,
    agent INTEGER NOT NULL, referrer INTEGER NOT NULL, visitor INTEGER NOT NULL,
    PRIMARY KEY (link, at, n)
) WITHOUT ROWID;
"""
# Labels with a meaning: not recognised, no referrer, the rest of a map of places.
UNKNOWN = "unknown."
DIRECT = "Direct"
OTHER = "Other"
# id -> host; 0 is the service's own domain ("no branded domain").
DOMAINS = {0: "sho.example", 1: "go.example", 2: "link.example", 3: "brand.example"}
FIRST_LINK_ID = 1_000_001
FIRST_TAG_ID = 501

# The tables of labels and their columns after the id, in order.
LABELS = {
    "place": ("country", "state", "city", "postalcode", "timezone"),
    "agent": ("device", "browser", "platform"),
    "referrer": ("referrer",),
}


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


# Id of the link, Unix seconds, row ids of place, agent and referrer, visitor.
Click = tuple[int, int, int, int, int, int]


class Store:
    """One account, in memory or in a file. Usable from several threads.

    A file that already holds an account is opened as it is.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self._lock = threading.RLock()
        self._db = sqlite3.connect(path or ":memory:", isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA synchronous = OFF")  # a file has to survive the process, not the machine
        self.is_new = not self.rows("SELECT 1 FROM sqlite_master")
        if self.is_new:
            self._db.executescript(_SCHEMA)
            start = [("link", FIRST_LINK_ID - 1), ("tag", FIRST_TAG_ID - 1)]
            self.insert("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", start)
        self._labels: dict[str, dict[int, tuple[str, ...]]] = {}
        self._logged: tuple[int, list[Click]] = (-1, [])
        # Largest numbers so far: the next click and the next visitor take the following ones.
        self._clicks, self.visitors = self.rows(
            "SELECT coalesce(max(n), 0), coalesce(max(visitor), 0) FROM click"
        )[0]

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
        """Insert many rows in one transaction."""
        with self._lock, self._db:
            self._db.execute("BEGIN")
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

    def labels(self, table: str) -> Mapping[int, tuple[str, ...]]:
        """Return the texts of a table of labels by row id."""
        with self._lock:
            if table not in self._labels:
                self._labels[table] = {row[0]: row[1:] for row in self.rows(f"SELECT * FROM {table}")}
            return self._labels[table]

    def add_labels(self, table: str, rows: Sequence[tuple[str, ...]]) -> list[int]:
        """Return the row ids of places, agents or referrers, inserting those that are new."""
        columns = LABELS[table]
        marks = ", ".join("?" * len(columns))
        where = " AND ".join(f"{column} = ?" for column in columns)
        with self._lock:
            self.insert(f"INSERT OR IGNORE INTO {table} ({', '.join(columns)}) VALUES ({marks})", rows)
            self._labels.pop(table, None)
            return [self.rows(f"SELECT id FROM {table} WHERE {where}", row)[0][0] for row in rows]

    def log(self) -> list[Click]:
        """Return the raw click log; it may be the list returned before."""
        with self._lock:
            changes = self._db.total_changes
            if self._logged[0] != changes:
                log: list[Any] = self.rows("SELECT link, at, place, agent, referrer, visitor FROM click")
                self._logged = (changes, log)
            return self._logged[1]

    def add_clicks(self, clicks: Iterable[Click]) -> None:
        """Append clicks; fastest if sorted by link and instant."""
        with self._lock:
            first = self._clicks + 1
            rows = [(c[0], c[1], n, c[2], c[3], c[4], c[5]) for n, c in enumerate(clicks, first)]
            self.insert("INSERT INTO click VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
            self._clicks += len(rows)
            self.visitors = max(self.visitors, max((row[6] for row in rows), default=0))

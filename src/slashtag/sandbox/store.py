"""The account: links, tags and the click log, in SQLite."""
# ruff: noqa: S608 - only names from this file are put into a query; values are bound

import sqlite3
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from .world import DOMAINS

# A click row is a few small integers; labels are in tables of their own. Every query selects by the log's
# primary key, and without a rowid the table is its own covering index.
_SCHEMA = """
CREATE TABLE domain (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE tag (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, description TEXT NOT NULL,
    created_at INTEGER NOT NULL
);
CREATE INDEX tag_by_date ON tag (created_at, id);
CREATE TABLE link (
    id INTEGER PRIMARY KEY AUTOINCREMENT, slashtag TEXT NOT NULL, domain INTEGER NOT NULL REFERENCES domain,
    destination TEXT NOT NULL, redirect_code INTEGER NOT NULL, password TEXT NOT NULL,
    created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, tag INTEGER REFERENCES tag,
    UNIQUE (slashtag, domain)
);
CREATE INDEX link_by_date ON link (created_at, id);
CREATE INDEX link_by_tag ON link (tag);
CREATE TABLE place (
    id INTEGER PRIMARY KEY, country TEXT NOT NULL, state TEXT NOT NULL, city TEXT NOT NULL,
    postalcode TEXT NOT NULL, timezone TEXT NOT NULL, UNIQUE (country, state, city, postalcode, timezone)
);
CREATE TABLE agent (
    id INTEGER PRIMARY KEY, device TEXT NOT NULL, browser TEXT NOT NULL, platform TEXT NOT NULL,
    UNIQUE (device, browser, platform)
);
CREATE TABLE referrer (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE click (
    link INTEGER NOT NULL, at INTEGER NOT NULL, n INTEGER NOT NULL, place INTEGER NOT NULL,
    agent INTEGER NOT NULL, referrer INTEGER NOT NULL, visitor INTEGER NOT NULL,
    PRIMARY KEY (link, at, n)
) WITHOUT ROWID;
"""
FIRST_LINK_ID = 1_000_001
FIRST_TAG_ID = 501


class Link(NamedTuple):
    """A short URL; instants are Unix seconds."""

    id: int
    slashtag: str
    domain: int
    destination: str
    redirect_code: int
    password: str
    created_at: int
    updated_at: int
    tag: int | None


class Tag(NamedTuple):
    """A tag; the instant is Unix seconds."""

    id: int
    name: str
    description: str
    created_at: int


# Id of the link, Unix seconds, row ids of place, agent and referrer, visitor.
Click = tuple[int, int, int, int, int, int]

# Largest click log that is kept in memory for the next use of Truth.
_LARGEST_CACHED_LOG = 300_000

# The tables of labels and their columns after the id, in order.
LABELS = {
    "place": ("country", "state", "city", "postalcode", "timezone"),
    "agent": ("device", "browser", "platform"),
    "referrer": ("name",),
}

_LINK_COLUMNS = ", ".join(f"link.{name}" for name in Link._fields)
_TAG_COLUMNS = ", ".join(Tag._fields)


class Store:
    """One account, in memory or in a file. Usable from several threads.

    A file that already holds an account is opened as it is.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.lock = threading.RLock()
        self._db = sqlite3.connect(path or ":memory:", isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA synchronous = OFF")  # a file has to survive the process, not the machine
        self.is_new = not self.rows("SELECT 1 FROM sqlite_master")
        if self.is_new:
            self._db.executescript(_SCHEMA)
            self.insert("INSERT INTO domain VALUES (?, ?)", list(DOMAINS.items()))
            start = [("link", FIRST_LINK_ID - 1), ("tag", FIRST_TAG_ID - 1)]
            self.insert("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", start)
        self._labels: dict[str, dict[int, tuple[str, ...]]] = {}
        self._logged: tuple[tuple[int, int], list[Click]] | None = None
        # Largest numbers so far: the next click and the next visitor take the following ones.
        self._clicks, self.visitors = self.rows(
            "SELECT coalesce(max(n), 0), coalesce(max(visitor), 0) FROM click"
        )[0]

    def close(self) -> None:
        """Close the database."""
        with self.lock:
            self._db.close()

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[int, ...]]:
        """Return every row of a query for integers."""
        with self.lock:
            return self._db.execute(sql, values).fetchall()

    def names(self, sql: str, values: Sequence[object] = ()) -> list[tuple[str, ...]]:
        """Return every row of a query for texts."""
        with self.lock:
            return self._db.execute(sql, values).fetchall()

    def insert(self, sql: str, rows: Iterable[Sequence[object]]) -> None:
        """Insert many rows in one transaction."""
        with self.lock:
            self._db.execute("BEGIN")
            try:
                self._db.executemany(sql, rows)
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    # Links

    def links(self, *, latest_first: bool, offset: int, limit: int) -> list[Link]:
        """Return one page of links by creation date, ties by id."""
        way = "DESC" if latest_first else "ASC"
        sql = (
            f"SELECT {_LINK_COLUMNS} FROM link JOIN"
            f" (SELECT id FROM link ORDER BY created_at {way}, id {way} LIMIT ? OFFSET ?) USING (id)"
            f" ORDER BY link.created_at {way}, link.id {way}"
        )
        with self.lock:
            return [Link(*row) for row in self._db.execute(sql, (limit, offset))]

    def all_links(self) -> list[Link]:
        """Return every link, in no order."""
        with self.lock:
            return [Link(*row) for row in self._db.execute(f"SELECT {_LINK_COLUMNS} FROM link")]

    def find_links(self, *, id: int | None = None, slashtag: str | None = None) -> list[Link]:
        """Return the links with this id, or with this slashtag on any domain."""
        sql = f"SELECT {_LINK_COLUMNS} FROM link WHERE id = ? OR slashtag = ? ORDER BY id"
        with self.lock:
            return [Link(*row) for row in self._db.execute(sql, (id, slashtag))]

    def add_link(self, link: Link) -> int:
        """Insert a link and return its id; id 0 takes the next free one.

        Raises sqlite3.IntegrityError if the domain already has the slashtag.
        """
        sql = f"INSERT INTO link ({', '.join(Link._fields)}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
        with self.lock:
            return self._db.execute(sql, (link.id or None, *link[1:])).lastrowid or 0

    def change_link(self, link: Link) -> None:
        """Overwrite the link with this id.

        Raises sqlite3.IntegrityError if the domain already has the slashtag.
        """
        columns = ", ".join(f"{name} = ?" for name in Link._fields[1:])
        with self.lock:
            self._db.execute(f"UPDATE link SET {columns} WHERE id = ?", (*link[1:], link.id))

    def remove_link(self, id: int) -> None:
        """Delete a link and its clicks."""
        with self.lock:
            self._db.execute("DELETE FROM click WHERE link = ?", (id,))
            self._db.execute("DELETE FROM link WHERE id = ?", (id,))

    def hits(self, ids: Sequence[int]) -> dict[int, int]:
        """Count all clicks of each of these links."""
        marks = ", ".join("?" * len(ids))
        sql = f"SELECT id, (SELECT count(*) FROM click WHERE link = id) FROM link WHERE id IN ({marks})"
        return {row[0]: row[1] for row in self.rows(sql, ids)}

    # Tags

    def tags(self, *, latest_first: bool, offset: int, limit: int) -> list[Tag]:
        """Return one page of tags by creation date, ties by id."""
        way = "DESC" if latest_first else "ASC"
        sql = f"SELECT {_TAG_COLUMNS} FROM tag ORDER BY created_at {way}, id {way} LIMIT ? OFFSET ?"
        with self.lock:
            return [Tag(*row) for row in self._db.execute(sql, (limit, offset))]

    def all_tags(self) -> list[Tag]:
        """Return every tag, in no order."""
        with self.lock:
            return [Tag(*row) for row in self._db.execute(f"SELECT {_TAG_COLUMNS} FROM tag")]

    def find_tag(self, name: str) -> Tag | None:
        """Return the tag of this name."""
        with self.lock:
            row = self._db.execute(f"SELECT {_TAG_COLUMNS} FROM tag WHERE name = ?", (name,)).fetchone()
        return Tag(*row) if row else None

    def add_tag(self, tag: Tag) -> int:
        """Insert a tag and return its id; id 0 takes the next free one.

        Raises sqlite3.IntegrityError if the name is taken.
        """
        with self.lock:
            sql = f"INSERT INTO tag ({_TAG_COLUMNS}) VALUES (?, ?, ?, ?)"
            return self._db.execute(sql, (tag.id or None, *tag[1:])).lastrowid or 0

    # Clicks

    def labels(self, table: str) -> Mapping[int, tuple[str, ...]]:
        """Return the texts of a table of labels by row id."""
        with self.lock:
            if table not in self._labels:
                rows = self._db.execute(f"SELECT * FROM {table}")
                self._labels[table] = {row[0]: row[1:] for row in rows}
            return self._labels[table]

    def add_labels(self, table: str, rows: Sequence[tuple[str, ...]]) -> list[int]:
        """Return the row ids of places, agents or referrers, inserting those that are new."""
        columns = LABELS[table]
        marks = ", ".join("?" * len(columns))
        where = " AND ".join(f"{column} = ?" for column in columns)
        with self.lock:
            self.insert(f"INSERT OR IGNORE INTO {table} ({', '.join(columns)}) VALUES ({marks})", rows)
            self._labels.pop(table, None)
            return [self.rows(f"SELECT id FROM {table} WHERE {where}", row)[0][0] for row in rows]

    def log(self) -> list[Click]:
        """Return the raw click log; it may be the list returned before."""
        sql = "SELECT link, at, place, agent, referrer, visitor FROM click"
        with self.lock:
            # Changes by this connection, and by others to the same file.
            changes = (self._db.total_changes, self.rows("PRAGMA data_version")[0][0])
            if self._logged is None or self._logged[0] != changes:
                log = self._db.execute(sql).fetchall()
                if len(log) > _LARGEST_CACHED_LOG:
                    return log
                self._logged = (changes, log)
            return self._logged[1]

    def add_clicks(self, clicks: Iterable[Click]) -> None:
        """Append clicks; fastest if sorted by link and instant."""
        with self.lock:
            first = self._clicks + 1
            rows = [(c[0], c[1], n, c[2], c[3], c[4], c[5]) for n, c in enumerate(clicks, first)]
            self.insert("INSERT INTO click VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
            self._clicks += len(rows)
            self.visitors = max(self.visitors, max((row[6] for row in rows), default=0))

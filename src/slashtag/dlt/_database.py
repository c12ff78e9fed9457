"""Tables in a database, by the SQL that all databases of dlt understand."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import sqlglot

from .. import ExportError
from ..tables import batches
from ._tables import TABLES, Replacement, Row, Span

#: Values that a statement has at most: some databases refuse more.
MOST_VALUES = 2_000
_SELECT = "SELECT {columns} FROM {name} WHERE {rest}"
_DELETE = "DELETE FROM {name} WHERE {rest}"
_INSERT = "INSERT INTO {name} ({columns}) VALUES {rest}"


class Database:
    """Tables that are reached by a client of dlt's; each change is one transaction."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._dialect = client.capabilities.sqlglot_dialect

    def open(self) -> None:
        """Connect, and make the tables that are missing; raises ExportError if another load is under way."""
        client = self._client
        client.open_connection()
        if not client.has_dataset():
            client.create_dataset()
        for table in TABLES:
            self._create(table)
        if self._dialect == "postgres":
            # Held until the connection ends.
            lock = "SELECT pg_try_advisory_lock(hashtext(%s))"
            if client.execute_sql(lock, client.fully_qualified_dataset_name()) != [(True,)]:
                raise ExportError("another load into it is under way")

    def close(self) -> None:
        """Disconnect."""
        self._client.close_connection()

    def rows(self, table: str, span: Span | None = None) -> list[Row]:
        """Return the rows of a table, or those of a span."""
        where, values = self._within(table, span)
        return [tuple(row) for row in self._execute(_SELECT, table, where, values)]

    def replace(self, changes: Sequence[Replacement]) -> None:
        """Replace rows, in one transaction."""
        with self._client.begin_transaction():
            for table, names, span, rows in changes:
                where, values = self._within(table, span)
                if names is None:
                    self._execute(_DELETE, table, where, values)
                for part in batches(names or (), MOST_VALUES):
                    name = self._quoted(next(iter(TABLES[table])))
                    places = ", ".join(["%s"] * len(part))
                    self._execute(_DELETE, table, f"{where} AND {name} IN ({places})", [*values, *part])
                width = len(TABLES[table])
                for part in batches(rows, MOST_VALUES // width):
                    places = ", ".join([f"({', '.join(['%s'] * width)})"] * len(part))
                    self._execute(_INSERT, table, places, chain(*part))

    def _within(self, table: str, span: Span | None) -> tuple[str, Sequence[Any]]:
        """Return a condition for rows of a span, and its values."""
        day = self._quoted([*TABLES[table]][1])
        return ("1 = 1", ()) if span is None else (f"{day} BETWEEN %s AND %s", span)

    def _execute(self, statement: str, table: str, rest: str, values: Iterable[Any] = ()) -> Any:
        columns = [*map(self._quoted, TABLES[table])]
        name = self._client.make_qualified_table_name(table)
        return self._client.execute_sql(
            statement.format(name=name, columns=", ".join(columns), rest=rest), *values
        )

    def _create(self, table: str) -> None:
        columns = [f"{self._quoted(name)} {kind}" for name, kind in TABLES[table].items()]
        name = self._client.make_qualified_table_name(table)
        duckdb = f"CREATE TABLE IF NOT EXISTS {name} ({', '.join(columns)})"
        # SQLite takes any name for a type, and Python's module knows these.
        dialect = "duckdb" if self._dialect == "sqlite" else self._dialect
        self._client.execute_sql(*sqlglot.transpile(duckdb, read="duckdb", write=dialect))

    def _quoted(self, column: str) -> Any:
        return self._client.escape_column_name(column)

"""Tables in a database, by the SQL that all databases of dlt understand."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

import sqlglot

from .. import ExportError
from ..tables import chunks
from ._tables import TABLES, Replacement, Row, Span

#: Values that a statement has at most: some databases refuse more.
MOST_VALUES = 2_000


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
            lock = "SELECT pg_try_advisory_lock(hashtext(%s))"
            if client.execute_sql(lock, client.fully_qualified_dataset_name()) != [(True,)]:
                raise ExportError("another load into it is under way")

    def close(self) -> None:
        """Disconnect."""
        if self._dialect == "postgres":
            with suppress(Exception):  # as if the connection is lost
                # A server may notice some time later that a connection has ended.
                self._client.execute_sql("SELECT pg_advisory_unlock_all()")
        self._client.close_connection()

    def rows(self, table: str, span: Span | None = None) -> list[Row]:
        """Return the rows of a table, or those of a span."""
        where, days = _within(span)
        return [tuple(row) for row in self._execute("SELECT {columns} FROM {table} ", where, table, days)]

    def replace(self, changes: Sequence[Replacement]) -> None:
        """Replace rows, in one transaction."""
        with self._client.begin_transaction():
            for table, names, span, rows in changes:
                where, days = _within(span)
                if names is None:
                    self._execute("DELETE FROM {table} ", where, table, days)
                for part in chunks(names or (), MOST_VALUES):
                    meant = f"{where} AND {{name}} IN {_marks(part)}"
                    self._execute("DELETE FROM {table} ", meant, table, [*days, *part])
                for some in chunks(rows, MOST_VALUES // len(TABLES[table])):
                    marks = ", ".join(map(_marks, some))
                    self._execute("INSERT INTO {table} ({columns}) VALUES ", marks, table, chain(*some))

    def _execute(self, statement: str, rest: str, table: str, values: Iterable[Any]) -> Any:
        """Run a statement with the names of a table and of its columns."""
        columns = [*map(self._client.escape_column_name, TABLES[table])]
        told = {"table": self._client.make_qualified_table_name(table), "columns": ", ".join(columns)}
        told["name"], told["day"], *_ = columns
        return self._client.execute_sql((statement + rest).format(**told), *values)

    def _create(self, table: str) -> None:
        columns = [
            # In SQL an int may have 32 bits.
            f"{self._client.escape_column_name(name)} {kind.replace('int', 'bigint')}"
            for name, kind in TABLES[table].items()
        ]
        duckdb = f"CREATE TABLE IF NOT EXISTS {self._client.make_qualified_table_name(table)} "
        duckdb += f"({', '.join(columns)})"
        # SQLite takes any name for a type, and Python's module knows these.
        dialect = "duckdb" if self._dialect == "sqlite" else self._dialect
        self._client.execute_sql(*sqlglot.transpile(duckdb, read="duckdb", write=dialect))


def _within(span: Span | None) -> tuple[str, Sequence[Any]]:
    """Return a condition for rows of a span, and its values."""
    return ("WHERE 1 = 1", ()) if span is None else ("WHERE {day} BETWEEN %s AND %s", span)


def _marks(values: Sequence[Any]) -> str:
    return f"({', '.join(['%s'] * len(values))})"

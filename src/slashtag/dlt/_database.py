"""Tables in a database, by the SQL that all databases of dlt understand."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import date, datetime
from itertools import chain, islice
from typing import Any

import sqlglot
from dlt.destinations.exceptions import DatabaseException, DatabaseUndefinedRelation

from .. import ConfigurationError, ExportError
from ._tables import TABLES, Replacement, Row, Span, key_of

#: Values that a statement has at most: some databases refuse more.
MOST_VALUES = 2_000
#: DuckDB needs more memory for the index of a key than for the rows, and other databases do not enforce keys.
WITH_KEYS = ("postgres", "sqlite")
#: SQLite takes the name of a column that is missing for a text, unless the table is named with it.
_SELECT = "SELECT {of_table} FROM {name} t{rest}"
_DELETE = "DELETE FROM {name}{rest}"
_INSERT = "INSERT INTO {name} ({columns}) VALUES {rest}"


class Database:
    """Tables that are reached by a client of dlt's; each change is one transaction."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._dialect = client.capabilities.sqlglot_dialect

    def open(self) -> None:
        client = self._client
        client.open_connection()
        if not client.has_dataset():
            client.create_dataset()
        for table in TABLES:
            try:
                self._execute(_SELECT, table, " WHERE 1 = 0")
            except DatabaseUndefinedRelation:
                self._create(table)
            except DatabaseException as error:
                problem = f"{table} has other columns: it was not made by this version of slashtag"
                raise ConfigurationError(f"{problem}; use another path or --dataset") from error
        if self._dialect == "postgres":
            # Held until the connection ends, which an error of a statement, as above, may do.
            lock = "SELECT pg_try_advisory_lock(hashtext(%s))"
            if client.execute_sql(lock, client.fully_qualified_dataset_name()) != [(True,)]:
                raise ExportError("another load into it is under way")

    def close(self) -> None:
        self._client.close_connection()

    def rows(self, table: str, span: Span | None = None, names: Collection[Any] | None = None) -> list[Row]:
        found: list[Row] = []
        for where, values in self._conditions(table, span, names):
            found += self._execute(_SELECT, table, where, values)
        return [tuple(row) for row in found] if self._dialect != "sqlite" else _typed(table, found)

    def replace(self, changes: Sequence[Replacement]) -> None:
        with self._client.begin_transaction():
            for change in changes:
                for where, values in self._conditions(change.table, change.span, change.names):
                    self._execute(_DELETE, change.table, where, values)
                self._insert(change.table, change.rows)

    def _insert(self, table: str, rows: Sequence[Row]) -> None:
        width = len(TABLES[table])
        for part in _parts(rows, MOST_VALUES // width):
            places = ", ".join([f"({', '.join(['%s'] * width)})"] * len(part))
            self._execute(_INSERT, table, places, chain(*part))

    def _execute(self, statement: str, table: str, rest: str, values: Iterable[Any] = ()) -> Any:
        """Run one of the statements; SQLite has no dates, so it gets texts."""
        columns = [*map(self._quoted, TABLES[table])]
        name = self._client.make_qualified_table_name(table)
        if self._dialect == "sqlite":
            values = (value.isoformat() if isinstance(value, date) else value for value in values)
        return self._client.execute_sql(
            statement.format(
                name=name, columns=", ".join(columns), of_table="t." + ", t.".join(columns), rest=rest
            ),
            *values,
        )

    def _create(self, table: str) -> None:
        columns = [f"{self._quoted(name)} {kind}" for name, kind in TABLES[table].items()]
        if self._dialect in WITH_KEYS:
            columns.append(f"PRIMARY KEY ({', '.join(map(self._quoted, key_of(table)))})")
        duckdb = f"CREATE TABLE {self._client.make_qualified_table_name(table)} ({', '.join(columns)})"
        (create,) = sqlglot.transpile(duckdb, read="duckdb", write=self._dialect)
        self._client.execute_sql(create)

    def _conditions(
        self, table: str, span: Span | None, names: Collection[Any] | None
    ) -> Iterator[tuple[str, list[Any]]]:
        """Yield WHERE clauses, with their values: one for each part of the names."""
        name, second, *_ = map(self._quoted, TABLES[table])
        for part in [None] if names is None else _parts([*names], MOST_VALUES // 4):
            conditions: list[str] = []
            values: list[Any] = []
            if span is not None:
                conditions.append(f"{second} BETWEEN %s AND %s")
                values += span
            if part is not None:
                conditions.append(f"{name} IN ({', '.join(['%s'] * len(part))})")
                values += part
            where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
            yield where, values

    def _quoted(self, column: str) -> Any:
        return self._client.escape_column_name(column)


def _parts(rows: Sequence[Any], most: int) -> Iterator[Sequence[Any]]:
    rest = iter(rows)
    while part := list(islice(rest, most)):
        yield part


_READ: dict[str, Any] = {"DATE": date.fromisoformat, "TIMESTAMP": datetime.fromisoformat, "BOOLEAN": bool}


def _typed(table: str, rows: list[Row]) -> list[Row]:
    """Return rows of SQLite with dates for the texts that it has."""
    reads = [_READ.get(kind) for kind in TABLES[table].values()]
    return [
        tuple(
            value if read is None or value is None else read(value)
            for read, value in zip(reads, row, strict=True)
        )
        for row in rows
    ]

"""Clicks by day as a destination or a file holds them: sums of months, and days, read by SQL."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import date
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from .. import InvalidRequestError
from .._internal import DAY, check_local_path, last_day

#: Runs a query with `%s` for each argument, and yields its rows.
Execute = Callable[[str, Sequence[str]], Iterable[Sequence[Any]]]
#: First and last day of a month, or of the part of it that is meant.
Span = tuple[date, date]

_MONTHS = (
    "SELECT s, m, SUM(c), COUNT(c), COUNT(DISTINCT CASE WHEN c IS NULL THEN NULL ELSE d END), "
    "SUM(CASE WHEN c = 0 THEN 1 ELSE 0 END) FROM "
    "(SELECT {slashtag} AS s, {month} AS m, {date} AS d, {clicks} AS c FROM {table} WHERE {span}) t "
    "GROUP BY s, m"
)
_DAYS = (
    "SELECT {slashtag}, {date}, SUM({clicks}), COUNT({clicks}) FROM {table} WHERE {span}{only} "
    "GROUP BY {slashtag}, {date}"
)
#: Plain files have the rows of all loads: those of the last one are valid.
_VIEW = (
    "CREATE TEMP VIEW held AS SELECT slashtag, date, clicks FROM files "
    "QUALIFY rank() OVER (PARTITION BY slashtag, date ORDER BY _dlt_load_id DESC) = 1"
)
#: How DuckDB reads a file of clicks, all cells as texts, by the ending of its name.
_READERS = {
    ".csv": "read_csv(?, header = true, all_varchar = true, delim = ',', quote = '\"', escape = '\"')",
    ".jsonl": "read_json(?, format = 'newline_delimited', columns = "
    "{slashtag: 'VARCHAR', date: 'VARCHAR', clicks: 'VARCHAR'})",
    ".parquet": "read_parquet(?)",
}
#: So many slashtags are named in a query; of more, all are read.
_MOST_NAMED = 200


class Month(NamedTuple):
    """Clicks of a slashtag in a month, its rows with a number, their different days, and rows with zero."""

    clicks: int = 0
    rows: int = 0
    days: int = 0
    zeros: int = 0


class Day(NamedTuple):
    """Clicks of a slashtag on a day, and the rows that hold them."""

    clicks: int = 0
    rows: int = 0


NO_MONTH, NO_DAY = Month(), Day()


class Held:
    """Table of clicks by slashtag and day that SQL can be asked about.

    `table` and the columns are as SQL names them.
    """

    def __init__(self, execute: Execute, table: str, quote: Callable[[str], str] = str) -> None:
        self._execute = execute
        self._names = {name: quote(name) for name in ("slashtag", "date", "clicks")} | {"table": table}

    def months(self, first: date, last: date) -> dict[str, dict[date, Month]]:
        """Return the sums of months, each by the first of the days that are meant, by slashtag."""
        spans = months_between(first, last)
        before = " ".join(
            f"WHEN {self._names['date']} <= '{end}' THEN {n}" for n, (_, end) in enumerate(spans)
        )
        found: dict[str, dict[date, Month]] = {}
        query = _MONTHS.format(**self._names, month=f"CASE {before} END", span=self._span(first, last))
        for slashtag, n, *counts in self._execute(query, ()):
            if slashtag is not None:
                found.setdefault(slashtag, {})[spans[n][0]] = Month(*(int(count or 0) for count in counts))
        return found

    def days(self, first: date, last: date, slashtags: Collection[str]) -> dict[str, dict[date, Day]]:
        """Return the days of slashtags; of others too if they are many."""
        named = list(slashtags) if len(slashtags) <= _MOST_NAMED else []
        only = f" AND {self._names['slashtag']} IN ({', '.join(['%s'] * len(named))})" if named else ""
        found: dict[str, dict[date, Day]] = {}
        query = _DAYS.format(**self._names, span=self._span(first, last), only=only)
        for slashtag, day, clicks, rows in self._execute(query, named):
            if slashtag is not None:
                of_slashtag = found.setdefault(slashtag, {})
                of_slashtag[_date(day)] = Day(int(clicks or 0), int(rows))
        return found

    def _span(self, first: date, last: date) -> str:
        return "{date} >= '{first}' AND {date} <= '{last}'".format(**self._names, first=first, last=last)


def _date(value: Any) -> date:
    # SQLite has texts.
    return date.fromisoformat(value[:10]) if isinstance(value, str) else value


def months_between(first: date, last: date) -> list[Span]:
    """Return the months from one day to another, the first and the last one as far as they are meant."""
    found: list[Span] = []
    while first <= last:
        found.append((first, min(last, last_day(first))))
        first = last_day(first) + DAY
    return found


def held_at(pipeline: Any) -> Held:
    """Return what the destination of a pipeline holds; its schema is known."""
    if pipeline.destination.destination_name == "filesystem":
        return _held_in_files(pipeline)
    client = pipeline.sql_client()
    table = client.make_qualified_table_name("clicks_daily")

    def execute(query: str, arguments: Sequence[str]) -> Iterator[Sequence[Any]]:
        with pipeline.sql_client() as client, client.execute_query(query, *arguments) as cursor:
            while rows := cursor.fetchmany(10_000):
                yield from rows

    return Held(execute, table, client.escape_column_name)


def _held_in_files(pipeline: Any) -> Held:
    """Return what Parquet files in a folder or bucket hold, which are read as dlt writes them, by fsspec.

    DuckDB has an extension for buckets of its own, but it has to be downloaded, and told credentials again.
    Each file is read once, as a whole: threads of DuckDB would share the position of an open file.
    """
    connection: Any = pipeline.destination_client()
    pyarrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    texts = ["slashtag", "_dlt_load_id"]
    read: dict[str, Any] = {}

    def execute(query: str, arguments: Sequence[str]) -> Iterator[Sequence[Any]]:
        with connection as client, closing(import_module("duckdb").connect()) as database:
            # A repair has added files since.
            client.fs_client.invalidate_cache()
            for path in client.list_table_files("clicks_daily"):
                if path not in read:
                    file = pyarrow.BufferReader(client.fs_client.cat_file(path))
                    columns = [*texts, "date", "clicks"]
                    read[path] = parquet.read_table(file, columns=columns, read_dictionary=texts)
            if not read:
                return
            database.register("files", pyarrow.concat_tables(read.values(), promote_options="permissive"))
            database.execute(_VIEW)
            yield from _execute(database, query, arguments)

    return Held(execute, "held")


def _execute(database: Any, query: str, arguments: Sequence[str]) -> Iterator[Sequence[Any]]:
    """Run a query in a DuckDB database, and yield its rows."""
    database.execute(query.replace("%s", "?"), list(arguments))
    yield from database.fetchall()


def held_in(path: Path) -> tuple[Held, Mapping[str, str]]:
    """Return what a file of `slashtag export clicks` holds, and its metadata, which only Parquet has.

    Raises InvalidRequestError for other files.
    """
    check_local_path(path)
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise InvalidRequestError(f"{path} is no file of clicks that can be audited: {', '.join(_READERS)}")
    duckdb: Any = import_module("duckdb")
    typed = (
        "SELECT CAST(slashtag AS VARCHAR) slashtag, CAST(date AS DATE) date, CAST(clicks AS BIGINT) clicks"
    )
    quoted = reader.replace("?", "'{}'".format(str(path).replace("'", "''")))
    connection = duckdb.connect()
    try:
        columns = {row[0] for row in connection.execute(f"DESCRIBE FROM {quoted}").fetchall()}
        if missing := [name for name in ("slashtag", "date", "clicks") if name not in columns]:
            raise InvalidRequestError(f"{path} has no column {', '.join(missing)}")
        connection.execute(f"CREATE VIEW held AS {typed} FROM {quoted}")
        # Cells that are no dates or numbers are told before anything is requested.
        connection.execute("SELECT min(date), sum(clicks) FROM held").fetchall()
    except duckdb.Error as error:
        told = str(error).splitlines()[0]
        raise InvalidRequestError(f"{path} cannot be read as clicks by slashtag and date: {told}") from None
    metadata: dict[str, str] = {}
    if path.suffix.lower() == ".parquet":
        parquet: Any = import_module("pyarrow.parquet")
        found: dict[bytes, bytes] = parquet.read_schema(path).metadata or {}
        metadata = {
            name.decode(errors="replace"): text.decode(errors="replace") for name, text in found.items()
        }

    def execute(query: str, arguments: Sequence[str]) -> Iterator[Sequence[Any]]:
        with closing(connection.cursor()) as cursor:  # for each thread its own
            yield from _execute(cursor, query, arguments)

    return Held(execute, "held"), metadata

"""Records as other libraries take them: built-in values, pydantic fields and Arrow tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from importlib import import_module
from operator import attrgetter
from typing import Any, Protocol, cast, get_args, get_type_hints

import msgspec
from msgspec import Struct
from msgspec.structs import FieldInfo, asdict, fields

from ._errors import ConfigurationError, ExportError

INT64 = range(-(2**63), 2**63)
EPOCH = datetime(1970, 1, 1)
MICROSECOND = timedelta(microseconds=1)


class ArrowStream(Protocol):
    """Table that offers the Arrow C stream, as polars, DuckDB, pandas and pyarrow read it."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


class PydanticType(Struct, frozen=True):
    """Base class of structs that are types to pydantic: fields of its models, bodies of FastAPI."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        # Only pydantic calls this, so it is installed.
        from pydantic_core import core_schema as schemas

        def aliases(field: FieldInfo) -> list[list[str | int]]:
            return [[field.name], [field.encode_name]]

        names = [field.name for field in fields(source)]
        members = schemas.typed_dict_schema(
            {
                field.name: schemas.typed_dict_field(
                    handler.generate_schema(field.type),
                    required=field.required,
                    # The service's names are accepted too.
                    validation_alias=aliases(field),
                )
                for field in fields(source)
            },
            config={"title": cls.__name__},
        )

        def to_members(value: PydanticType) -> dict[str, Any]:
            return {name: getattr(value, name) for name in names}

        from_dict = schemas.no_info_after_validator_function(lambda found: cls(**found), members)
        arguments = "_".join(each.__name__ for each in get_args(source))
        return schemas.json_or_python_schema(
            json_schema=from_dict,
            python_schema=schemas.union_schema([schemas.is_instance_schema(cls), from_dict]),
            serialization=schemas.plain_serializer_function_ser_schema(to_members, return_schema=members),
            # A component of its own in OpenAPI.
            ref=f"{cls.__module__}.{cls.__name__}{arguments and '_' + arguments}:{id(cls)}",
        )


class Record(PydanticType, frozen=True, kw_only=True):
    """Base class of links, tags, pages and statistics, for conversion to built-in values."""

    def to_dict(self) -> dict[str, Any]:
        """Return a dict that json.dumps takes: names of members as here, dates as ISO 8601, keys as str."""
        members: dict[str, Any] = to_builtins(self)
        return members


def to_builtins(value: object) -> Any:
    """Return records, also in lists, tuples, sets and dicts, as values that json.dumps takes.

    It is also the default= of json.dumps: `json.dumps({"spring": stats}, default=slashtag.to_builtins)`.
    Dates are ISO 8601, keys of dicts str. Raises TypeError for other classes.
    """
    if isinstance(value, Record):
        value = asdict(value)  # msgspec would use the service's names of members
    if isinstance(value, dict):
        pairs = cast("dict[object, object]", value)
        return {str(to_builtins(key)): to_builtins(each) for key, each in pairs.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_builtins(each) for each in cast("Iterable[object]", value)]
    return msgspec.to_builtins(value)


def to_arrow(columns: Mapping[str, type], rows: Iterable[Sequence[Any]]) -> ArrowStream:
    """Return rows as an Arrow table; `columns` are their names and types, and any value may be None.

    Raises ConfigurationError without the extra `arrow`, ExportError for a number that int64 cannot hold.
    """
    try:
        arrow: Any = import_module("nanoarrow")
    except ImportError:
        raise ConfigurationError('Arrow tables need nanoarrow: pip install "slashtag[arrow]"') from None
    types: dict[type, Any] = {
        int: arrow.int64(),
        str: arrow.string(),
        date: arrow.date32(),
        datetime: arrow.timestamp("us"),
    }
    values = list(zip(*rows, strict=True)) or [()] * len(columns)
    arrays = [
        arrow.c_array(_to_numbers(name, column), types[columns[name]])
        for name, column in zip(columns, values, strict=True)
    ]
    schema = arrow.struct({name: types[kind] for name, kind in columns.items()})
    table: ArrowStream = arrow.Array(
        arrow.c_array_from_buffers(schema, len(values[0]), [None], children=arrays)
    )
    return table


def records_to_arrow(page_type: Any, records: Iterable[object]) -> ArrowStream:
    """Return the records of pages of one type, each a row, as an Arrow table."""
    (record_type,) = get_args(page_type)
    types = get_type_hints(record_type)
    columns = {name: (get_args(types[name]) or (types[name],))[0] for name in record_type.__struct_fields__}
    return to_arrow(columns, map(attrgetter(*columns), records))


def _to_numbers(name: str, column: Sequence[Any]) -> Sequence[Any]:
    """Return dates as days, and date-times as microseconds, since 1970."""
    first = next((value for value in column if value is not None), None)
    if isinstance(first, datetime):
        return [None if value is None else (value - EPOCH) // MICROSECOND for value in column]
    if isinstance(first, date):
        return [None if value is None else value.toordinal() - EPOCH.toordinal() for value in column]
    if isinstance(first, int):
        for value in column:
            if value is not None and value not in INT64:
                raise ExportError(f"{name} {value} does not fit Arrow's int64; use rows() or to_dict()")
    return column

"""Links and tags of the account as immutable values; records as other libraries take them."""

from collections.abc import Callable, Iterable
from datetime import date, datetime
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, TypeVar, cast, get_args

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import asdict, fields

T = TypeVar("T")
#: Redirect codes of the service's document.
RedirectCode = Literal[301, 302, 303, 304, 307, 308]
REDIRECT_CODES: tuple[int, ...] = get_args(RedirectCode)
if TYPE_CHECKING:
    # So that what was read can be sent. Another code that the service sends is kept all the same.
    ReadCode = RedirectCode
else:
    ReadCode = int
#: Time of a record, without a zone.
Time = Annotated[datetime, Meta(tz=False)]


class PydanticType(Struct, frozen=True):
    """Base class of structs that are types to pydantic: fields of its models, bodies of FastAPI.

    FastAPI reads such a parameter from the body if it says so: `query: Annotated[DateRange, Body()]`.
    """

    #: Whether errors of pydantic must not show what they are about, as it may be a password.
    _hides_input: ClassVar[bool] = False

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        # Only pydantic calls this, so it is installed.
        from pydantic_core import ValidationError
        from pydantic_core import core_schema as schemas

        names = [field.name for field in fields(source)]

        def schema_of(field: Any) -> Any:
            kind, read = cls._reader(field.name, field.type)
            inner = handler.generate_schema(kind)
            return inner if read is None else schemas.no_info_before_validator_function(read, inner)

        members = schemas.typed_dict_schema(
            {
                field.name: schemas.typed_dict_field(
                    schema_of(field),
                    required=field.required,
                    # The service's names are accepted too.
                    validation_alias=cast("Any", [[field.name], [field.encode_name]]),
                )
                for field in fields(source)
            },
            # A query with a misspelt member would be another query; to a record the service may add some.
            extra_behavior="ignore" if issubclass(cls, Record) else "forbid",
            config={"title": cls.__name__},
        )

        def to_members(value: PydanticType) -> dict[str, Any]:
            return {name: getattr(value, name) for name in names}

        def read(value: object, from_members: Callable[[object], Any]) -> Any:
            if isinstance(value, cls):
                return value
            try:
                members = from_members(value)
            except ValidationError as error:
                if not cls._hides_input:
                    raise
                problems: Any = [each | {"input": "hidden"} for each in error.errors(include_url=False)]
                raise ValidationError.from_exception_data(error.title, problems) from None
            return cls(**members)

        read.__name__ = cls.__name__  # errors of a union of types show it
        arguments = "_".join(each.__name__ for each in get_args(source))
        return schemas.no_info_wrap_validator_function(
            read,
            members,
            serialization=schemas.plain_serializer_function_ser_schema(to_members, return_schema=members),
            # A component of its own in OpenAPI.
            ref=f"{cls.__module__}.{cls.__name__}{arguments and '_' + arguments}:{id(cls)}",
        )

    @classmethod
    def _reader(cls, name: str, kind: Any) -> tuple[Any, Callable[[object], object] | None]:
        """Return the type of a member in JSON, and what makes one of a value, if pydantic shall not."""
        return kind, None


class Record(PydanticType, frozen=True, kw_only=True):
    """Base class of links, tags, pages and statistics, for conversion to built-in values."""

    def to_dict(self) -> dict[str, Any]:
        """Return a dict that json.dumps takes: names of members as here, dates as ISO 8601, keys as str."""
        members: dict[str, Any] = to_builtins(self)
        return members


class ShortUrl(Record, frozen=True, kw_only=True, gc=False, rename="camel"):
    """One short URL of the account.

    `hits` is the click counter; `redirect_code` an HTTP status,
    one of RedirectCode by the document; timestamps have no zone, as the service
    documents none; `tag_id` is None if the link has no tag. A member other than `id` that cannot be read is
    None, so add up `url.hits or 0`; `metrics.unreadable` counts these. See docs/service.md, Short URL.
    """

    id: int
    destination: str | None = None
    hits: int | None = None
    redirect_code: ReadCode | None = None
    short_url: str | None = None
    slashtag: str | None = None
    created_at: Time | None = None
    updated_at: Time | None = None
    tag_id: int | None = None


class Tag(Record, frozen=True, kw_only=True, gc=False, rename="camel"):
    """One tag of the account; `name` is unique.

    A member other than `id` that cannot be read is None. See docs/service.md, Tag.
    """

    id: int
    name: str | None = None
    description: str | None = None
    created_at: Time | None = None


class Page(Record, Generic[T], frozen=True, kw_only=True, rename="camel"):
    """One page of a listing: its number, the pageSize that the service used, its items."""

    page: int
    page_size: int
    items: list[T]


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
    return msgspec.to_builtins(value, enc_hook=_iso_of_subclass)


def _iso_of_subclass(value: object) -> str:
    """Return ISO 8601 text of a subclass of date or datetime, such as those of pandas and freezegun."""
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} has no built-in form: {value!r}")

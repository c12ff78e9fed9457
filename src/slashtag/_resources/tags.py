"""The tags of the account."""

from collections.abc import Iterable

import msgspec

from .._core.call import Call
from .._core.checks import check_text
from .._core.limits import MAX_TAG_DESCRIPTION, MAX_TAG_NAME
from .._errors import BadRequestError, InvalidRequestError, OutcomeUnknownError
from .._records import Page, Tag
from .._wording import did_you_mean
from .listing import Resource


class Tags(Resource[Tag]):
    """Tags of the account."""

    _path = "tags"
    _page_type = Page[Tag]

    async def create(self, name: str, *, description: str | None = None) -> Tag:
        """Create a tag and return it.

        `name` is unique and has at most 25 characters, `description` at most 255. The request is repeated
        only if it cannot have been carried out. Raises InvalidRequestError before anything is sent,
        BadRequestError, TagLimitError, and OutcomeUnknownError if the answer was lost.
        See docs/service.md, Create a tag.
        """
        members: dict[str, object] = {"name": check_text("name", name, MAX_TAG_NAME)}
        if description is not None:
            members["description"] = check_text("description", description, MAX_TAG_DESCRIPTION, empty=True)
        body = msgspec.json.encode(members)
        call = Call(method="POST", path="tags", returns=Tag, body=body, repeat="if unsent")
        return await self._sender.send(call)

    async def ensure(self, name: str, *, description: str | None = None) -> Tag:
        """Return the tag with this name, creating it if there is none; safe to repeat.

        If the answer to the creation was lost, or somebody else created the tag meanwhile, it is looked up
        again. Raises what `create` raises. See docs/service.md, List tags; Create a tag.
        """
        check_text("name", name, MAX_TAG_NAME)
        if (tag := await self._find(name)) is not None:
            return tag
        try:
            return await self.create(name, description=description)
        except (BadRequestError, OutcomeUnknownError):
            if (tag := await self._find(name)) is not None:
                return tag
            raise

    async def names(self, wanted: Iterable[str] = ()) -> dict[int, str]:
        """Return the names of all tags by id; raises InvalidRequestError if none has one that is wanted.

        See docs/service.md, List tags.
        """
        async with self.list() as tags:
            names = {tag.id: tag.name async for tag in tags if tag.name}
        for name in wanted:
            if name not in names.values():
                meant = did_you_mean(name, names.values())
                raise InvalidRequestError(f"the account has no tag {name!r}{meant}")
        return names

    async def _find(self, name: str) -> Tag | None:
        async with self.list() as tags:
            async for tag in tags:
                if tag.name == name:
                    return tag
        return None

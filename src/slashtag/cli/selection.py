"""The options that say which links a command is about."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import typer

from .. import AsyncSession, InvalidRequestError, Keys, Progress, UnknownTagError
from .._internal import check_slashtag, did_you_mean, optional
from ..export import By, Sharing, names_of_tags, selection
from .errors import SOME_FAILED
from .options import option
from .run import Run

_option = partial(option, rich_help_panel="Which links (one of these)")
#: So many slashtags are looked up in the account by default, and so many unknown ones are named.
CHECKED, NAMED = 1_000, 10


def note_of_shared(slashtags: int) -> str:
    """Return the note on slashtags of selected links that other links have too."""
    return (
        f"slashtags that several links share: {slashtags:,}; the service counts clicks by slashtag, "
        "so the rows hold those of all these links, on whatever domain and selected or not"
    )


@dataclass
class Selection:
    """Options of which links a command is about."""

    keys: str | None = _option(None, metavar="A,B,...", help="These slashtags.")
    keys_file: typer.FileBinaryRead | None = _option(
        None, metavar="FILE", lazy=False, help="Slashtags from a file, one a line; - reads stdin."
    )
    tag: list[str] | None = _option(None, metavar="NAME", help="The links of this tag; may be repeated.")
    every: bool = _option(False, "--all", help="Every link of the account.")
    no_check: bool = _option(
        False, "--no-check", help=f"Do not look up slashtags in the account; over {CHECKED:,} never are."
    )

    #: What the links listed so far share.
    sharing: Sharing = field(default_factory=Sharing, init=False)

    def __post_init__(self) -> None:
        given = sum([self.keys is not None, self.keys_file is not None, bool(self.tag), self.every])
        if given != 1:
            question = "" if given else "; did you mean --all?"
            raise InvalidRequestError(
                f"exactly one of --keys, --keys-file, --tag and --all says which links{question}"
            )
        if not self.tag and not self.every:
            # Read and checked before anything is sent or written.
            self.slashtags  # noqa: B018

    def require_tags(self, run: Run) -> None:
        """Raise InvalidRequestError where slashtags are selected, for --by tag; print what it leaves out."""
        if not (self.tag or self.every):
            raise InvalidRequestError("--by tag goes with --tag or --all")
        if self.every:
            run.say("links without a tag are in no row")

    async def selector(
        self, run: Run, session: AsyncSession, progress: Progress | None = None
    ) -> dict[str, Any]:
        """Return the arguments `keys` and `tags`, both None for all links.

        Slashtags are those that links have, also of short URLs; what no link has is left out.
        """
        if self.tag or self.every:
            return {"keys": None, "tags": self.tag or None}
        keys, found = self.slashtags, None
        if any("://" in key for key in keys):
            found = await session.urls.find(keys, progress=progress)
        elif not self.no_check and len(keys) <= CHECKED:
            found = await optional(
                session, "the check of slashtags", lambda few: few.urls.find(keys, progress=progress)
            )
        if found is None:
            return {"keys": keys, "tags": None}
        if unknown := [key for key, link in found.items() if link is None]:
            named = ", ".join(map(repr, unknown[:NAMED]))
            more = f" and {len(unknown) - NAMED:,} more" if len(unknown) > NAMED else ""
            if len(unknown) == 1:
                listed = await optional(session, "similar slashtags", lambda few: few.urls.list().to_list())
                more = did_you_mean(unknown[0], (link.slashtag or "" for link in listed or ()))
            run.leave_out(f"no link has the slashtag {named}{more}; --no-check asks for it all the same")
        if len(unknown) == len(found):
            raise typer.Exit(SOME_FAILED)
        return {"keys": [link.slashtag or "" for link in found.values() if link is not None], "tags": None}

    @asynccontextmanager
    async def chosen(
        self,
        run: Run,
        session: AsyncSession,
        by: By = "slashtag",
        *,
        merged: bool = False,
        progress: Progress | None = None,
        dry_run: bool = False,
    ) -> AsyncGenerator[tuple[Keys | None, Iterable[str] | None], None]:
        """Yield `keys` and `tags` as `export.selection` does, without links that statistics cannot name.

        A dry run does not check whether links have the slashtags.
        """
        self.no_check |= dry_run
        selector = await self.selector(run, session, progress)
        async with selection(
            session,
            **selector,
            by=by,
            merged=merged,
            sharing=self.sharing,
            left_out=lambda error: run.leave_out(str(error)),
            progress=progress,
        ) as selected:
            try:
                yield selected
            except UnknownTagError:
                # Says which it is, and whether one has a name like it.
                await names_of_tags(session, self.tag or ())
                raise

    @cached_property
    def slashtags(self) -> list[str]:
        """Slashtags and short URLs as given; raises InvalidRequestError for what statistics cannot name."""
        if self.keys_file is None:
            where, lines = "--keys", (self.keys or "").split(",")
        else:
            where, data = getattr(self.keys_file, "name", "stdin"), self.keys_file.read()
            try:
                lines = data.decode("utf-8-sig").split("\n")
            except UnicodeDecodeError as error:
                line = data.count(b"\n", 0, error.start) + 1
                raise InvalidRequestError(f"{where}, line {line}: not UTF-8 text") from None
        found = [key for line in lines if (key := line.strip())]
        if self.keys_file is not None:
            found = [key for key in found if not key.startswith("#")]
            found = found[1:] if found and found[0].lower() == "slashtag" else found
        if not found:
            # Statistics of no links are zeros, and an export would replace a file by its header.
            raise InvalidRequestError(f"{where} holds no slashtags; --all selects every link")
        for key in found:
            if "://" not in key:
                check_slashtag(key)
            elif self.no_check:
                raise InvalidRequestError(f"{key!r} is a short URL, whose slashtag is looked up")
        return found


@dataclass
class SelectionOrAll(Selection):
    """Options of which links a command is about; by default all."""

    def __post_init__(self) -> None:
        if self.keys is None and self.keys_file is None and not self.tag:
            self.every = True
        super().__post_init__()

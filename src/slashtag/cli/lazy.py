"""Commands that are imported when they are called: the list of them needs none."""

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

#: Each command or group of commands: what it is called in `commands/<its name>.py`, and what the list says.
COMMANDS = {
    "urls": ("app", "Short URLs of the account."),
    "tags": ("app", "Tags of the account."),
    "stats": ("app", "Click statistics, exact for any number of links and days."),
    "export": ("app", "Links, tags and clicks into files, resumable."),
    "report": ("report", "Show the clicks of a span on one page, or as a picture."),
    "doctor": ("diagnose", "Find out how the service behaves, and which options to use."),
    "login": ("login", "Keep credentials for later commands."),
}


class LazyGroup(TyperGroup):
    """Import a command when it is needed for more than its line in the list."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        lazy: dict[str, Any] = {
            name: TyperCommand(name, help=text, rich_markup_mode=self.rich_markup_mode)
            for name, (_, text) in COMMANDS.items()
        }
        self.commands = lazy | dict(self.commands)
        self._unread = set(lazy)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in self._unread:
            self._unread.discard(cmd_name)
            self.commands[cmd_name] = _load(cmd_name)
        return self.commands.get(cmd_name)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        unread, self._unread = self._unread, set[str]()
        try:
            super().format_help(ctx, formatter)
        finally:
            self._unread = unread


def _load(name: str) -> Any:
    found = getattr(import_module(f".commands.{name}", __package__), COMMANDS[name][0])
    holder = typer.Typer(add_completion=False)
    holder.callback()(_nothing)
    if isinstance(found, typer.Typer):
        holder.add_typer(found, name=name)
    else:
        holder.command(name)(found)
    group: Any = typer.main.get_command(holder)
    return group.commands[name]


def _nothing() -> None:
    """Be the callback that makes a group of one command a group."""

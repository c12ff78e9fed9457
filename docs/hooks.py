"""Hook of mkdocs: parts of pages that are generated from the code."""

from __future__ import annotations

from html import escape
from typing import Any


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put in what a page asks for by a comment, and the version."""
    from slashtag import __version__

    markdown = markdown.replace("{version}", __version__)
    for name, make in {"commands": commands, "throttle": throttle}.items():
        marker = f"<!-- {name} -->"
        if marker in markdown:
            markdown = markdown.replace(marker, make())
    return markdown


def throttle() -> str:
    """Return the states of the throttle, as its module draws them."""
    from slashtag._core.throttle import throttle

    return f"```text\n{throttle.__doc__}```"


def commands() -> str:
    """Return the help of every command as Markdown."""
    import typer.main

    from slashtag.cli.app import make_app

    def sections(command: Any, context: Any, *names: str) -> list[str]:
        found = [f"## slashtag {' '.join(names)}".rstrip(), command_text(command, context)] if names else []
        for name in sorted(getattr(command, "commands", {})):
            _, inner, _ = command.resolve_command(context, [name])
            child = inner.make_context(name, [], parent=context, resilient_parsing=True)
            found += sections(inner, child, *names, name)
        return found

    root = typer.main.get_command(make_app())
    return "\n\n".join(sections(root, root.make_context("slashtag", [], resilient_parsing=True)))


def command_text(command: Any, context: Any) -> str:
    """Return what a command does, its arguments and its options."""
    pieces = [" ".join(part.split()) for part in (command.help or "").split("\n\n")]
    rows = []
    for parameter in command.params:
        record = parameter.get_help_record(context) if hasattr(parameter, "get_help_record") else None
        if record is not None and "--help" not in record[0]:
            name, text = (escape(" ".join(part.split())).replace("|", "&#124;") for part in record)
            # Between its words a name may be broken, and not within an option.
            codes = " ".join(f"<code>{word}</code>" for word in name.split())
            rows.append(f"| {codes} | {text} |")
    if rows:
        pieces.append("\n".join(["| Parameter | Meaning |", "|---|---|", *rows]))
    return "\n\n".join(pieces)

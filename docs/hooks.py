"""Hook of mkdocs: the reference of commands, generated from typer."""

from __future__ import annotations

import sys
from html import escape
from typing import Any

MARKER = "<!-- commands -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the reference of commands where a page asks for it."""
    return markdown.replace(MARKER, commands()) if MARKER in markdown else markdown


def commands() -> str:
    """Return the help of every command as Markdown."""
    import typer.main

    from slashtag.cli.app import app

    def sections(command: Any, context: Any, *names: str) -> list[str]:
        found = [f"## slashtag {' '.join(names)}".rstrip(), command_text(command, context)] if names else []
        for name in sorted(getattr(command, "commands", {})):
            inner = command.get_command(context, name)
            child = inner.make_context(name, [], parent=context, resilient_parsing=True)
            found += sections(inner, child, *names, name)
        return found

    root = typer.main.get_command(app)
    return "\n\n".join(sections(root, root.make_context("slashtag", [], resilient_parsing=True)))


def command_text(command: Any, context: Any) -> str:
    """Return what a command does, its arguments and its options."""
    pieces = [" ".join(part.split()) for part in (command.help or "").split("\n\n")]
    rows = []
    for parameter in command.params:
        record = parameter.get_help_record(context) if hasattr(parameter, "get_help_record") else None
        if record is not None and "--help" not in record[0]:
            name, text = (escape(" ".join(part.split())).replace("|", "&#124;") for part in record)
            rows.append(f"| <code>{name}</code> | {text} |")
    if rows:
        pieces.append("\n".join(["| Parameter | Meaning |", "|---|---|", *rows]))
    return "\n\n".join(pieces)


if __name__ == "__main__":
    sys.stdout.write(commands())

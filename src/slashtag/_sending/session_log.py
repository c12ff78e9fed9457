"""Log records of a session, which have its name."""

import logging

log = logging.getLogger("slashtag")


def tell(name: str, level: int, text: str, **fields: object) -> None:
    """Log a text of the session of this name; `fields` are those that docs/python.md has."""
    log.log(level, f"{name}: {text}" if name else text, extra={"session": name, **fields}, stacklevel=2)

"""Tables that stand in tests as text."""


def cells(text: str) -> list[list[str]]:
    """Return the cells of each line, which `|` separates."""
    return [[cell.strip() for cell in line.split("|")] for line in text.strip().splitlines()]

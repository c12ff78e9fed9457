"""Values of changes that are more likely mistakes than meant, and have to be confirmed.

what a change alters      doubtful
a destination             a scheme that no browser knows; what cannot be a host; characters that no browser
                          sends as they are; typographic quotes
a slashtag                a slash; such characters; another form of the same number, truth value or date, as
                          a spreadsheet writes it: 007 and 7, 1e5 and 1.00E+05, mar-1 and 01-Mar
several destinations      a new word that one or two have, and that differs by a character or two from the
                          word in its place in the rows around, which at least twice as many have
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from math import isclose

from .. import Change
from .._internal import find_doubts
from ._changes import Problem
from ._plan import Difference

#: A shorter word is often another one: men and women, de and en.
SHORTEST = 4
#: So many rows may have the same typo, and so many characters of a word.
MOST_ROWS, MOST_TYPOS = 2, 2
_WORD = re.compile(r"[^\W\d_]+")
#: How spreadsheets shorten numbers, and write dates without a slash.
_SHORTENED = re.compile(r"-?\d([.,]\d+)?E[+-]\d+")
_DATE = re.compile(r"\d{1,2}-[^\W\d_]{3}(-\d{2,4})?|[^\W\d_]{3}-\d{2}|\d{2}\.\d{2}\.(\d{2}|\d{4})")


def doubts(rows: Iterable[tuple[int, Change, Iterable[Difference]]]) -> list[Problem]:
    """Return what changes alter that is doubtful, in the order of their lines; each with its differences."""
    found: list[Problem] = []
    destinations: list[tuple[int, str, str]] = []
    for line, change, differences in rows:
        altered = {each.member: each for each in differences}
        given = {name: getattr(change, name) for name in ("destination", "slashtag") if name in altered}
        found += [Problem(line, text) for text in find_doubts(Change(change.key, **given))]
        renamed = altered.get("slashtag")
        if renamed is not None and is_reformatted(renamed.now, renamed.new):
            told = f"{renamed.new!r} is how a spreadsheet writes {renamed.now!r}, the slashtag of the link"
            found.append(Problem(line, told))
        if "destination" in given:
            destinations.append((line, altered["destination"].now, given["destination"]))
    lines = {problem.line for problem in found}
    return sorted([*found, *(each for each in typos(destinations) if each.line not in lines)])


def is_reformatted(before: str, after: str) -> bool:
    """Return whether a text may be what a spreadsheet has made of another when it opened CSV."""
    if before.lower() in ("true", "false"):
        return before.lower() == after.lower()
    if not any(c.isdigit() for c in before) or "_" in before + after:
        return False
    if _DATE.fullmatch(after):
        return True
    try:
        numbers = [float(text.replace(",", ".")) for text in (before, after)]
    except ValueError:
        return False
    return isclose(*numbers, rel_tol=0.1 if _SHORTENED.fullmatch(after) else 1e-14)


def typos(destinations: Sequence[tuple[int, str, str]]) -> Iterator[Problem]:
    """Yield the destinations of which a word looks like a typo of that around it: line, before, after.

    A word that the destination had before is none: it is not what was typed.
    """
    words = [_WORD.findall(after.lower()) for _, _, after in destinations]
    count = Counter((at, word) for each in words for at, word in enumerate(each))
    for n, (line, before, destination) in enumerate(destinations):
        kept = set(_WORD.findall(before.lower()))
        around = [*reversed(words[max(0, n - MOST_ROWS) : n]), *words[n + 1 : n + 1 + MOST_ROWS]]
        for at, word in enumerate(words[n]):
            if count[at, word] > MOST_ROWS or word in kept:
                continue
            others = [
                each[at] for each in around if len(each) > at and 2 * count[at, word] <= count[at, each[at]]
            ]
            if other := next((other for other in others if _are_alike(word, other)), None):
                yield Problem(line, f"{word!r} is {other!r} in the rows around it: {destination!r}")
                break


def _are_alike(one: str, other: str) -> bool:
    """Return whether words differ by a character or two."""
    if one == other or min(len(one), len(other)) < SHORTEST or abs(len(one) - len(other)) > MOST_TYPOS:
        return False
    same = sum(
        block.size for block in SequenceMatcher(None, one, other, autojunk=False).get_matching_blocks()
    )
    return max(len(one), len(other)) - same <= MOST_TYPOS

"""Values of changes that are more likely mistakes than meant, and have to be confirmed.

what a change alters      doubtful
a destination             no scheme that browsers know, as `htps`; `&amp;`, as HTML writes &; one that is the
                          short URL of the link, or leads back to it over other links of the account
a slashtag                another form of the same number, truth value or date, as a spreadsheet writes it:
                          007 and 7, 1e5 and 1.00E+05, mar-1 and 01-Mar
"""

import re
from collections.abc import Iterable, Iterator
from math import isclose

from ._changes import Problem
from ._links import LinkIndex, address, address_of
from ._plan import PlannedRow

#: Registered schemes that browsers and phones open. Others are those of an app, or misspelt.
KNOWN_SCHEMES = frozenset({"http", "https", "mailto", "tel", "sms", "geo", "ftp", "sip", "sips", "xmpp"})
#: How spreadsheets shorten numbers, and write dates without a slash.
_SHORTENED = re.compile(r"-?\d([.,]\d+)?E[+-]\d+")
_DATE = re.compile(r"\d{1,2}-[^\W\d_]{3}(-\d{2,4})?|[^\W\d_]{3}-\d{2}|\d{2}\.\d{2}\.(\d{2}|\d{4})")


def doubts(planned: Iterable[PlannedRow], links: LinkIndex) -> list[Problem]:
    """Return what is doubtful of the rows that are sent, in the order of their lines."""
    rows = [each for each in planned if each.change is not None]
    found = [Problem(each.row.line, text) for each in rows for text in _mistakes(each)]
    return sorted([*found, *_loops(rows, links)])


def _mistakes(row: PlannedRow) -> Iterator[str]:
    for member, now, new in ((each.member, each.now, each.new) for each in row.differences):
        if member == "slashtag" and is_reformatted(now, new):
            yield f"{new!r} is how a spreadsheet writes {now!r}, the slashtag of the link"
        if member == "destination" and (scheme := new.partition(":")[0]).lower() not in KNOWN_SCHEMES:
            yield f"{scheme!r} is no scheme that browsers know, though an app may: {new!r}"
        if member == "destination" and "&amp;" in new.lower():
            yield f"&amp; is how HTML writes &: {new!r}"


def _loops(rows: Iterable[PlannedRow], links: LinkIndex) -> Iterator[Problem]:
    """Yield the rows whose destination leads back to their link, once all rows are changed."""
    leads = {address_of(url): url.destination for url in links.urls}
    changed: dict[str, PlannedRow] = {}
    for each in rows:
        if each.url is not None and each.change is not None:
            leads.pop(address_of(each.url), None)
            changed[address_of(each.url, each.change.slashtag)] = each
    leads |= {place: each.change.destination for place, each in changed.items() if each.change}
    for place, each in changed.items():
        passed = [place]
        while (at := address(leads[passed[-1]])) in leads and at not in passed:
            passed.append(at)
        if at == place and {"destination", "slashtag"} & {found.member for found in each.differences}:
            yield Problem(each.row.line, f"it leads back to itself: {' > '.join([*passed, place])}")


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

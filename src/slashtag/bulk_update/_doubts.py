"""Values of changes that are more likely mistakes than meant, and have to be confirmed.

what a change alters      doubtful
a destination             no scheme that browsers know, as `htps`; `&amp;`, as HTML writes &; one that is the
                          short URL of the link, or leads back to it over other links of the account
a slashtag                another form of the same number or date, as a spreadsheet writes it:
                          007 and 7, 1e5 and 1.00E+05, mar-1 and 01-Mar; a URL; invisible characters
"""

import re
from collections.abc import Iterator, Mapping
from math import isclose

from ._changes import Problem
from ._plan import Difference, LinkIndex, Preview, address, address_of

#: Registered schemes that browsers and phones open. Others are those of an app, or misspelt.
KNOWN_SCHEMES = frozenset({"http", "https", "mailto", "tel", "sms", "geo", "ftp", "sip", "sips", "xmpp"})
#: How spreadsheets write dates.
_DATE = re.compile(r"\d{1,2}-[^\W\d_]{3}(-\d{2,4})?|[^\W\d_]{3}-\d{2}|(\d{1,2}[./-]){2}\d{2,4}")


def doubts(planned: Preview, links: LinkIndex) -> list[Problem]:
    """Return what is doubtful of the rows that are sent, in the order of their lines."""
    leads = {address_of(url): url.destination or "" for url in links.urls}
    leads |= {row.place: row.change.destination or "" for row in planned.sent}
    places = {row.change.key: row.place for row in planned.sent}
    return sorted(
        Problem(difference.line, text)
        for difference in planned.differences
        for text in _mistakes(difference, places[difference.id], leads)
    )


def _mistakes(altered: Difference, place: str, leads: Mapping[str, str]) -> Iterator[str]:
    """Yield what is doubtful of one member; `leads` has where each short URL leads once all is done."""
    now, new = altered.now, altered.new
    if altered.member == "slashtag":
        if is_reformatted(now, new):
            yield f"{new!r} is how a spreadsheet writes {now!r}, the slashtag of the link"
        if "://" in new or not new.isprintable():
            yield f"{new!r} is a URL, or has a character that nobody sees"
    if altered.member == "destination":
        scheme, passed = new.partition(":")[0], [place]
        if scheme.lower() not in KNOWN_SCHEMES:
            yield f"{scheme!r} is no scheme that browsers know, though an app may: {new!r}"
        if "&amp;" in new.lower():
            yield f"&amp; is how HTML writes &: {new!r}"
        while (at := address(leads[passed[-1]])) in leads and at not in passed:
            passed.append(at)
        if at == place:
            yield f"it leads back to itself: {' > '.join([*passed, place])}"


def is_reformatted(before: str, after: str) -> bool:
    """Return whether a text may be what a spreadsheet has made of another when it opened CSV."""
    if not re.search(r"\d", before) or "_" in before + after:
        return False
    if _DATE.fullmatch(after):
        # A month begins as it was written, unless that was a number.
        was, month = (text.lower().strip("0123456789-./ ") for text in (before, after))
        return not was or was.startswith(month)
    try:
        numbers = [float(text.replace(",", ".")) for text in (before, after)]
    except ValueError:
        return False
    # Those that are long are shortened to the form 1.00E+05.
    return isclose(*numbers, rel_tol=0.1 if "E" in after else 1e-14)

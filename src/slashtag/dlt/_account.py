"""The links of an account, as they are listed and as a warehouse holds them, and whose they are."""

import hmac
import logging
import secrets
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import datetime
from operator import attrgetter

from .. import AsyncSession, ConfigurationError, ExportError, ShortUrl
from ._tables import TABLES, Row

log = logging.getLogger("slashtag")
#: Columns of `links` that are told by the service.
TOLD = [name for name in TABLES["links"] if name not in ("counted", "gone_at")]
ID, SLASHTAG, HITS, TAG = map(TOLD.index, ("id", "slashtag", "hits", "tag_id"))
COUNTED, GONE_AT = len(TOLD), len(TOLD) + 1
_told = attrgetter(*TOLD)


class ShrunkListingError(ExportError):
    """A listing lacks more than a tenth of the links of the last load: nothing was loaded."""


class Account:
    """Links by slashtag, as they are listed, and the rows of `links`.

    A slashtag has `changed` if the ids of its links are not those that are held: rows of clicks under it are
    those of other links.
    """

    def __init__(self, listed: Iterable[ShortUrl], held: Iterable[Row]) -> None:
        self.listed = {link.id: _told(link) for link in listed}
        self.held = {row[ID]: row for row in held}
        self._present = [row for row in self.held.values() if row[GONE_AT] is None]
        ids, hits = _by_slashtag(self.listed.values())
        held_ids, held_hits = _by_slashtag(self._present)
        #: Slashtags, those with the most hits first.
        self.names = sorted(ids, key=lambda name: -hits[name])
        self.changed = {name for name in ids if ids[name] != held_ids.get(name)}
        self.clicked = {name for name in ids if hits[name] != held_hits[name]}
        self.uncounted = {row[SLASHTAG] for row in self._present if not row[COUNTED]}
        #: Slashtags under which there may be rows, and those of them whose links are gone.
        self.ever_held = {row[SLASHTAG] for row in self.held.values()}
        self.of_gone = {
            row[SLASHTAG] for row in self.held.values() if row[ID] not in self.listed
        } - ids.keys()
        #: Rows of links that were there at the last load, and are not.
        self._lost = [row for row in self._present if row[ID] not in self.listed]
        #: Tags that have lost links since then, or got some of others.
        pairs = [(row[TAG], self.listed.get(row[ID], row)[TAG]) for row in self._present]
        self.retagged = {tag for pair in pairs if pair[0] != pair[1] for tag in pair}
        self.retagged |= {row[TAG] for row in self._lost}

    def gone_rows(self, now: datetime) -> list[Row]:
        """Return the rows of links that are gone since the last load."""
        return [(*row[:GONE_AT], now) for row in self._lost]

    def unlike(self, counted: Iterable[str] | None = None) -> list[Row]:
        """Return the rows of links that are not held as such, given the slashtags that are counted.

        None: of links whose slashtag has changed, which are not counted yet.
        """
        known = None if counted is None else {*counted}
        rows: list[Row] = []
        for told in self.listed.values():
            if known is not None or told[SLASHTAG] in self.changed:
                row = (*told, told[SLASHTAG] in (known or ()), None)
                if row != self.held.get(told[ID]):
                    rows.append(row)
        return rows

    def hold(self, rows: Iterable[Row]) -> None:
        """Note that these rows are held now."""
        self.held |= {row[ID]: row for row in rows}

    def check_whole(self, *, allow_shrink: bool) -> None:
        """Raise ShrunkListingError if too many links of the last load are not listed."""
        lost, present = len(self._lost), len(self._present)
        if lost >= 10 and lost * 10 > present and not allow_shrink:
            raise ShrunkListingError(
                f"{lost:,} of the {present:,} links of the last load are not listed: nothing was loaded; "
                "run it again later, or with --allow-shrink if so many were deleted"
            )

    def check_owner(self, session: AsyncSession, account: str | None) -> str:
        """Return what tells the account of a session, a salted hash; `account` is that of the last load.

        Another apikey is taken for a new one of the account if nine tenths of the links are the same. Raises
        ConfigurationError otherwise.
        """
        salt, _, key = (account or f"{secrets.token_hex(16)}:").partition(":")
        own = session._account_key(salt).hex()
        if account is not None and not hmac.compare_digest(own, key):
            listed = {row[:2] for row in self.listed.values()}
            same = len(listed & {row[:2] for row in self._present})
            if not same or same * 10 < len(self._present) * 9:
                raise ConfigurationError(
                    f"the warehouse holds another account than that of this apikey at {session.base_url}, "
                    f"which has {same:,} of its {len(self._present):,} links: use the apikey of that "
                    "account, or another path or --dataset for this one"
                )
            log.warning("the apikey is new; its account has the links that the warehouse holds")
        return f"{salt}:{own}"


def _by_slashtag(rows: Iterable[Row]) -> tuple[dict[str, set[int]], Counter[str]]:
    """Return the ids and the hits of each slashtag."""
    ids, hits = defaultdict[str, set[int]](set), Counter[str]()
    for row in rows:
        if (name := row[SLASHTAG]) is not None:
            ids[name].add(row[ID])
            hits[name] += row[HITS] or 0
    return dict(ids), hits

"""Links, tags and clicks added or removed by hand, also while the sandbox runs."""

from datetime import UTC, datetime
from time import time

from .store import DIRECT, DOMAINS, LABELS, UNKNOWN, Link, Store
from .truth import Truth

# Labels of a click that is added without them.
_LABELS = dict.fromkeys(LABELS, UNKNOWN) | {
    "country": "US",
    "device": "Desktop",
    "browser": "Chrome",
    "platform": "Windows",
    "referrer": DIRECT,
}


def seconds(when: datetime | str | None) -> int:
    """Return Unix seconds of an instant, now by default; one without an offset is UTC."""
    if when is None:
        return int(time())
    instant = datetime.fromisoformat(when) if isinstance(when, str) else when
    return int((instant if instant.tzinfo else instant.replace(tzinfo=UTC)).timestamp())


class Account:
    """Content of one account."""

    _store: Store | None = None

    @property
    def store(self) -> Store:
        """The store. Raises RuntimeError while the sandbox does not run."""
        if self._store is None:
            raise RuntimeError("the sandbox is not running")
        return self._store

    @property
    def truth(self) -> Truth:
        """Counts to compare answers with; see Truth."""
        return Truth(self.store)

    def add_url(
        self,
        slashtag: str,
        *,
        destination: str = "https://www.example/",
        created_at: datetime | str | None = None,
        tag: str | None = None,
        domain_id: int = 0,
        redirect_code: int = 301,
        password: str = "",
    ) -> int:
        """Add a link, created now by default, and return its id; domains are 0 (none) to 3.

        Raises LookupError for an unknown tag or domain, sqlite3.IntegrityError if the domain already has the
        slashtag.
        """
        tags = [] if tag is None else self.store.tags("WHERE name = ?", (tag,))
        if tag is not None and not tags:
            raise LookupError(f"no tag {tag!r}")
        if domain_id not in DOMAINS:
            raise LookupError(f"no domain {domain_id}")
        at, tag_id = seconds(created_at), tags[0].id if tags else None
        values = (slashtag, domain_id, destination, redirect_code, password, at, at, tag_id)
        return self.store.write("INSERT INTO link VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)", values)

    def remove_url(self, key: str | int) -> None:
        """Remove a link and its clicks, by slashtag (every domain's) or id."""
        for link in self._find(key):
            self.store.write("DELETE FROM link WHERE id = ?", (link.id,))
            self.store.write("DELETE FROM click WHERE link = ?", (link.id,))

    def add_tag(self, name: str, *, description: str = "", created_at: datetime | str | None = None) -> int:
        """Add a tag, created now by default, and return its id."""
        return self.store.add_tag(name, description, seconds(created_at)).id

    def add_click(
        self,
        key: str | int,
        when_utc: datetime | str,
        *,
        visitor: int | None = None,
        times: int = 1,
        **labels: str,
    ) -> None:
        """Log `times` clicks of a link at one instant, each by a new visitor unless `visitor` names one.

        `labels` are country, state, city, postalcode, timezone, device, browser, platform and referrer. A
        slashtag on several domains means the first of its links. Raises LookupError for an unknown key,
        TypeError for an unknown label.
        """
        texts = _LABELS | labels
        if len(texts) > len(LABELS):
            raise TypeError(f"labels are {', '.join(LABELS)}")
        click = (self._find(key)[0].id, seconds(when_utc), visitor, *self.store.label_ids(texts.values()))
        self.store.add_clicks([click] * times)

    def _find(self, key: str | int) -> list[Link]:
        column = "id" if isinstance(key, int) else "slashtag"
        links = self.store.links(f"WHERE {column} = ? ORDER BY id", (key,))
        if not links:
            raise LookupError(f"no link {key!r}")
        return links

"""The links of an account, found by what names them."""

from collections.abc import Iterable
from urllib.parse import unquote

from .. import InvalidRequestError, ShortUrl


def address(url: str | None) -> str:
    """Return the host and path that a URL leads to, by which short URLs are compared; "" without a path."""
    host, _, path = (url or "").rpartition("://")[2].partition("/")
    path = path.partition("#")[0].partition("?")[0].rstrip("/")
    return f"{host.lower()}/{unquote(path)}" if path else ""


def address_of(url: ShortUrl, slashtag: str | None = None) -> str:
    """Return the address of a link, as it is or with another slashtag."""
    return f"{address(url.short_url).partition('/')[0]}/{slashtag or url.slashtag}"


class LinkIndex:
    """The links of an account, by id (after a #), slashtag, and address of their short URL."""

    def __init__(self, urls: Iterable[ShortUrl]) -> None:
        self.by_name: dict[str, list[ShortUrl]] = {}
        self.urls = list(urls)
        for url in self.urls:
            for name in (f"#{url.id}", url.slashtag or "", address_of(url)):
                self.by_name.setdefault(name, []).append(url)

    def find(self, key: str | int, *, or_id: bool = False) -> ShortUrl:
        """Return the link with an id (int), or with a slashtag or short URL (str); with `or_id` also an id.

        Raises InvalidRequestError if there is not just one.
        """
        names = {f"#{key}"} if or_id or isinstance(key, int) else set[str]()
        if isinstance(key, str):
            names |= {key, address(key)}
        found = {url.id: url for name in names for url in self.by_name.get(name, ())}
        if len(found) != 1:
            raise InvalidRequestError(f"several links: give the id: {[*found]}" if found else "no such link")
        (url,) = found.values()
        # The path of an update cannot tell an id from a slashtag.
        if any(other is not url for other in self.by_name.get(str(url.id), ())):
            raise InvalidRequestError(f"its id, {url.id}, is also the slashtag of another link")
        return url

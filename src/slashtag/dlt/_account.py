"""Which account a destination is bound to, by a salted key of base URL and apikey in dlt's state."""

import hmac
import logging
import secrets
from typing import Any

from .. import AsyncSession, ConfigurationError, ShortUrl
from ._records import record_of

log = logging.getLogger("slashtag")

#: Version of what is kept in dlt's state.
FORMAT = 1
#: Share of the links of the last load that an account has, if it is taken for the same one.
SAME = 0.9


def bind(state: dict[str, Any], session: AsyncSession) -> str | None:
    """Bind a destination to the account that is loaded, or check that it is bound to it.

    `state` is kept at the destination. It gets a salted key of base URL and apikey, neither of which can be
    read from it; the apisecret may be replaced. Returns the key if it is another one than that of the last
    load from the same base URL: it may be that of a new apikey. Raises ConfigurationError for another
    service, and for a destination of a newer version.
    """
    if (format := state.get("format", FORMAT)) > FORMAT:
        problem = f"the destination was loaded by a newer version of slashtag (format {format}, not {FORMAT})"
        raise ConfigurationError(f"{problem}: update slashtag, or use another dataset")
    state["format"] = FORMAT
    account = state.setdefault("account", {"salt": secrets.token_hex(16)})
    key = session._account_key(account["salt"]).hex()
    # A destination of a version without keys is bound by its next load.
    if hmac.compare_digest(account.setdefault("key", key), key):
        return None
    last_load = record_of(state)
    if last_load is None or last_load.base_url != session.base_url:
        raise _other_account(session.base_url)
    return key


def confirm_account(state: dict[str, Any], key: str, listed: list[ShortUrl], base_url: str) -> None:
    """Bind a destination to a new apikey, if the links are those of the last load.

    Raises ConfigurationError if less than nine tenths of them are there.
    """
    last_load = record_of(state)
    before = last_load.series if last_load else {}
    ids: dict[str | None, set[int]] = {}
    for link in listed:
        ids.setdefault(link.slashtag, set()).add(link.id)
    same = sum(ids.get(slashtag) == {*series.ids} for slashtag, series in before.items())
    if same == 0 or same < len(before) * SAME:
        raise _other_account(base_url, f" ({same:,} of its {len(before):,} links are listed)")
    state["account"]["key"] = key
    log.warning(
        "the apikey is new; its account has the links that the destination holds, and is taken for the same"
    )


def _other_account(base_url: str, why: str = "") -> ConfigurationError:
    problem = f"the destination holds clicks of another account than that of this apikey at {base_url}{why}"
    return ConfigurationError(
        f"{problem}: use the apikey of that account, or another path or --dataset for this one"
    )

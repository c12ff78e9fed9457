"""How many random examples a law is tried on."""

from hypothesis import settings


def examples(usual: int) -> settings:
    """Try a law on so many examples, or on those of `make test-more`."""
    more = settings.get_current_profile_name() == "more"
    return settings(max_examples=settings.default.max_examples if more else usual)

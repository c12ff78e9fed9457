"""What is in doubt is asked for once more, and no longer than it is."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from slashtag._resources.second_answers import ask_until_sure


@given(st.lists(st.sampled_from(["", "doubt"]), min_size=4, max_size=4), st.integers(1, 4), st.booleans())
def test_answers_are_asked_for_while_the_last_is_in_doubt(
    doubts: list[str], most: int, has_first: bool
) -> None:
    answers = list(enumerate(doubts))
    asked: list[bool] = []

    async def ask(again: bool) -> tuple[int, str]:
        asked.append(again)
        return answers[len(asked) - 1 + has_first]

    first = answers[0] if has_first else None
    found = asyncio.run(ask_until_sure("it", ask, lambda answer: answer[1], first=first, most=most))
    wanted = next((n for n, doubt in enumerate(doubts, 1) if not doubt), most)
    assert found == answers[: min(wanted, most)]
    assert asked == ([False] + [True] * 3)[has_first : len(found)]

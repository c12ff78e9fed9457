"""A simulated listing that caps its pages and changes while it is read, and a driver of cursors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Literal

from slashtag import BadRequestError, NotFoundError, Page, SlashtagError, Tag
from slashtag._core.paging import PageCursor, Paging

#: What a service answers for a page.
Answer = Callable[[int], Page[Tag] | SlashtagError]
#: What it answers behind the end: the last page under its own number, or under the one requested.
Beyond = Literal["empty", "404", "400", "last page", "its number"]


def page(number: int, ids: Sequence[int], size: int = 3) -> Page[Tag]:
    return Page(page=number, page_size=size, items=[Tag(id=n, name=str(n)) for n in ids])


def cursor(*, latest_first: bool = False, **options: Any) -> PageCursor[Tag]:
    return PageCursor(Paging(orderby="-date" if latest_first else "date", **options))


class Service:
    """Records 0 to n-1, whose ids are in the order of their creation.

    `cap` bounds pages below the `size` that the answers tell; `inserts` and `deletes` say how many records
    come and go before each request. So many records in a row as `ties` says were created at the same time:
    each answer has them in another order. `odd` has other answers, by the number of the request.
    """

    def __init__(
        self,
        n: int,
        size: int,
        *,
        latest_first: bool = False,
        cap: int | None = None,
        beyond: Beyond = "empty",
        inserts: Callable[[], int] = lambda: 0,
        deletes: Callable[[], int] = lambda: 0,
        ties: int = 1,
        random: Random | None = None,
        odd: Mapping[int, Page[Tag] | SlashtagError] | None = None,
    ) -> None:
        self.records = list(range(n))
        self.requests = 0
        #: The page size that is requested.
        self.pagesize = 500
        self._next = n
        self._size = size
        self._length = min(size, cap or size)
        self._latest_first = latest_first
        self._beyond = beyond
        self._inserts = inserts
        self._deletes = deletes
        self._ties = ties
        self._random = random or Random(0)
        self._odd = odd or {}

    def __call__(self, number: int) -> Page[Tag] | SlashtagError:
        self.requests += 1
        if self.requests in self._odd:
            return self._odd[self.requests]
        self._change()
        length, ids = min(self._length, self.pagesize), self.records
        if self._ties > 1:
            ids = sorted(ids, key=lambda id: (id // self._ties, self._random.random()))
        ids = ids[::-1] if self._latest_first else ids
        of = number
        if self._beyond != "empty" and number > 1 and (number - 1) * length >= len(ids):
            if self._beyond in ("404", "400"):
                kind = NotFoundError if self._beyond == "404" else BadRequestError
                return kind("no such page", status=int(self._beyond))
            of = max(1, -(-len(ids) // length))
        found = ids[(of - 1) * length : of * length]
        said = number if self._beyond == "its number" else of
        return page(said, found, min(self._size, self.pagesize))

    def _change(self) -> None:
        for _ in range(self._inserts()):
            self.records.append(self._next)
            self._next += 1
        for _ in range(min(self._deletes(), len(self.records))):
            self.records.pop(self._random.randrange(len(self.records)))


class EndlessError(AssertionError):
    """A listing that does not end."""


def read(
    cursor: PageCursor[Tag], answer: Answer, random: Random | None = None
) -> tuple[list[int], list[list[int]]]:
    """Drive a cursor as a listing does; return the ids it gave and the pages it requested in each round.

    With `random` the service answers pages under way in any order; without it, each when it is due.
    """
    given = list[int]()
    rounds = list[list[int]]()
    waiting = set[int]()
    answered = dict[int, Page[Tag] | SlashtagError]()
    while not cursor.done:
        asked = list[int]()
        while (number := cursor.next_to_request()) is not None:
            asked.append(number)
        rounds.append(asked)
        waiting.update(asked)
        early = random.sample(sorted(waiting), random.randint(0, len(waiting))) if random else []
        if isinstance(answer, Service):
            answer.pagesize = cursor.requested_size
        for number in [*early, *({cursor.number} & waiting - set(early))]:
            waiting.discard(number)
            answered[number] = answer(number)
        found = answered.pop(cursor.number)
        if isinstance(found, SlashtagError):
            cursor.take_error(found)
        else:
            given += [tag.id for tag in cursor.take(found)]
        waiting &= cursor.under_way
        for number in answered.keys() - cursor.under_way:
            del answered[number]
        if len(rounds) > 5_000:
            raise EndlessError
    assert cursor.next_to_request() is None
    return given, rounds

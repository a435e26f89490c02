"""Several places asked at once, and what they say taken in their order: text, JSON and errors are those of one after the other.

A window of PLACES_MAX places moves along: the first that is not taken yet, and those behind it. For requests that change nothing, or where
it does not matter which change comes first.

Threads  one event loop. Bounds: PLACES_MAX places with what they have said; requests by the session (REQUESTS_MAX).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from itertools import islice
from typing import TypeVar

from .errors import AdminError
from .output import Output
from .session import REQUESTS_MAX, Session

P = TypeVar("P")
R = TypeVar("R")

PLACES_MAX = 2 * REQUESTS_MAX
"""More than requests, for the first place may be slow."""


async def ask_beside(
    session: Session, places: Iterable[P], ask: Callable[[Session, P], Awaitable[R]], take: Callable[[P, R], None] = lambda *rest: None
) -> bool:
    """Asks at each place with a session of its own, and takes what was found, also after it has failed at one (that is noted). True: it
    failed nowhere."""

    async def start(part: Session, place: P) -> R:
        return await ask(part, place)

    is_done = True
    left = iter(places)
    window: deque[tuple[P, Session, asyncio.Task[R]]] = deque()
    try:
        while True:
            for place in islice(left, PLACES_MAX - len(window)):
                part = session.part()
                window.append((place, part, asyncio.create_task(start(part, place))))
            if not window:
                return is_done
            place, part, task = window[0]
            await asyncio.wait([task])
            window.popleft()
            session.take_part(part)
            try:
                found = task.result()
            except AdminError as error:
                session.note(error)
                is_done = False
            else:
                take(place, found)
    finally:
        for _, _, task in window:
            task.cancel()
        await asyncio.gather(*(task for _, _, task in window), return_exceptions=True)


async def show_beside(session: Session, out: Output, places: Iterable[P], show: Callable[[Session, Output, P], Awaitable[None]]) -> bool:
    """As ask_beside, for work that puts something out."""

    async def ask(part: Session, place: P) -> Output:
        aside = out.aside()
        try:
            await show(part, aside, place)
        except AdminError as error:  # what was said before stays said
            part.note(error)
            failed.append(place)
        return aside

    failed: list[P] = []
    await ask_beside(session, places, ask, lambda place, aside: out.take(aside))
    return not failed

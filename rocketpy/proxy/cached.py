"""Answers of name servers and brokers, refreshed now and then. While nobody answers, the old answer stays valid.
RocketMQ: AbstractCacheLoader and the caches of TopicRouteService and ClusterMetadataService (5.5.0 proxy/service/).

Threads  one event loop. Bounds: as many answers as the cache was made for, the oldest go first; a question takes no longer than the call
         behind it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from .._core.errors import NetworkError, TimedOut
from ..metrics.complaints import Complaints

log = logging.getLogger(__name__)

PATIENCE_S: Final = 1.0
"""A question may take so long until those who have an answer go on with it: one to a silent server takes several seconds."""

T = TypeVar("T")


class Cached(Generic[T]):
    """Answers of `ask`, which is called for what is unknown or was asked more than refresh_s ago, once for all who want it at that time.
    While `ask` raises NetworkError or TimedOut, the last answer stays valid; any other error takes its place.

    Failures are not kept, because their tracebacks refer to the requests of all who waited. `what` names, in messages, what is asked for.
    """

    def __init__(self, ask: Callable[[str], Awaitable[T]], refresh_s: float, most: int, what: str) -> None:
        self._ask = ask
        self._refresh_s = refresh_s
        self._most = max(1, most)
        self._what = what
        self._answers: dict[str, tuple[T, float]] = {}
        self._questions: dict[str, tuple[asyncio.Future[T], float]] = {}
        """And since when they are under way."""
        self._failing: set[str] = set()
        self._complaints = Complaints(time.monotonic)

    def __len__(self) -> int:
        return len(self._answers)

    async def get(self, key: str) -> T:
        answer = self._answers.get(key)
        if answer is not None and time.monotonic() < answer[1]:
            return answer[0]
        question, begun_s = self._questions.get(key) or self._begin(key)
        if answer is not None:
            await asyncio.wait({question}, timeout=max(0, begun_s + PATIENCE_S - time.monotonic()))
            if not question.done():
                return answer[0]
        shielded = asyncio.shield(question)
        del question  # it has the error that it may raise, which has this frame, and with it those of whoever waits: a cycle
        try:
            return await shielded
        finally:
            del shielded

    def known(self, key: str) -> tuple[T, float] | None:
        """(the answer, the time on the monotonic clock until which it is valid); None if one would have to ask."""
        return self._answers.get(key)

    def _begin(self, key: str) -> tuple[asyncio.Future[T], float]:
        question = asyncio.ensure_future(self._answered(key, self._answers.get(key)))
        self._questions[key] = begun = question, time.monotonic()
        question.add_done_callback(lambda done: self._end(key, done))
        return begun

    async def _answered(self, key: str, before: tuple[T, float] | None) -> T:
        good_from_s = time.monotonic()
        try:
            answer = await self._ask(key)
            self._worked(key)
        except (NetworkError, TimedOut) as error:
            if before is None:
                raise
            answer, good_from_s = before[0], time.monotonic()
            self._failed(key, error)
        except BaseException:
            self._worked(key)
            self._answers.pop(key, None)
            raise
        self._answers.pop(key, None)
        while len(self._answers) >= self._most:
            oldest = next(iter(self._answers))
            del self._answers[oldest]
            self._failing.discard(oldest)
        self._answers[key] = answer, good_from_s + self._refresh_s
        return answer

    def _failed(self, key: str, error: Exception) -> None:
        self._failing.add(key)
        if count := self._complaints.failed():
            log.warning("%s %s cannot be asked for, what was known is used (%d times by now): %s", self._what, key, count, error)

    def _worked(self, key: str) -> None:
        self._failing.discard(key)
        if not self._failing:
            self._complaints.worked()

    def _end(self, key: str, question: asyncio.Future[T]) -> None:
        del self._questions[key]
        if not question.cancelled():
            question.exception()  # seen, should nobody wait any more

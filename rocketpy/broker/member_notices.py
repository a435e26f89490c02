"""Telling the members of a group that it has changed, so that they divide its queues anew: once a turn of the event loop.
RocketMQ: DefaultConsumerIdsChangeListener (5.3.3 broker/client/), which tells all members of every change.

Of a thousand members that come back at once each would be told of every other one: half a million notices. All changes that one turn brings
are one notice to each member. A process that ends may be in hundreds of groups of as many members each: others have their turn in between.
Of a group that changes again before all its members were told, those are told first that were not: it may change in every turn.

Threads  one event loop. Bounds: TOLD_AT_ONCE notices in one turn of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from ..remoting.codes import RequestCode
from .clients import Channel, Notify
from .parts import ClientLink

log = logging.getLogger(__name__)


TOLD_AT_ONCE: Final = 1000


class MemberNotices:
    """One of a broker."""

    def __init__(self, link: ClientLink) -> None:
        self._link = link
        self._due: dict[str, Sequence[Channel]] = {}
        self._ahead: dict[str, Sequence[Channel]] = {}  # of groups in _due: who was not told of an earlier change; the longest first
        self._turn: asyncio.Handle | None = None

    def add(self, change: Notify) -> None:
        """The members as they are behind the change: those of an earlier one that have left since are told nothing."""
        self._due[change.group] = change.channels
        self._have_told()

    def _have_told(self) -> None:
        if self._due and self._turn is None:
            self._turn = asyncio.get_running_loop().call_soon(self._tell)

    def _in_turn(self, group: str, channels: Sequence[Channel]) -> Sequence[Channel]:
        """Once for many changes of a turn: that they come in costs nothing each."""
        ahead = self._ahead.pop(group, channels)
        if ahead is channels:
            return channels
        places = dict.fromkeys(ahead)
        members = set(channels)
        return [*(each for each in places if each in members), *(each for each in channels if each not in places)]

    def _tell(self) -> None:
        self._turn, chosen, room = None, [], TOLD_AT_ONCE
        while self._due and room > 0:
            group, channels = next(iter(self._due.items()))
            channels = self._in_turn(group, channels)
            chosen.append((group, channels[:room]))
            del self._due[group]
            if len(channels) > room:
                self._due[group] = self._ahead[group] = channels[room:]
            room -= len(channels)
        self._have_told()
        for group, channels in chosen:
            fields = {"consumerGroup": group}
            told = [self._link.notify(channel, RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, fields) for channel in channels]
            if untold := told.count(False):  # who is gone or does not read; want of memory is said by whoever sends
                log.info("notifyConsumerIdsChanged: %d of %d clients of group %s cannot be told", untold, len(told), group)

"""Telling the members of a group that it has changed, so that they divide its queues anew: once a turn of the event loop.
RocketMQ: DefaultConsumerIdsChangeListener (5.3.3 broker/client/), which tells all members of every change.

Of a thousand members that come back at once each would be told of every other one: half a million notices. All changes that one turn brings
are one notice to each member.

Threads  one event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from ..remoting.codes import RequestCode
from .clients import Channel, Notify
from .parts import ClientLink

log = logging.getLogger(__name__)


class MemberNotices:
    """One of a broker."""

    def __init__(self, link: ClientLink) -> None:
        self._link = link
        self._due: dict[str, Sequence[Channel]] = {}

    def add(self, change: Notify) -> None:
        """The members as they are behind the change: those of an earlier one that have left since are told nothing."""
        if not self._due:
            asyncio.get_running_loop().call_soon(self._tell)
        self._due[change.group] = change.channels

    def _tell(self) -> None:
        due, self._due = self._due, {}
        for group, channels in due.items():
            fields = {"consumerGroup": group}
            told = [self._link.notify(channel, RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, fields) for channel in channels]
            if untold := told.count(False):  # who is gone or does not read; want of memory is said by whoever sends
                log.info("notifyConsumerIdsChanged: %d of %d clients of group %s cannot be told", untold, len(told), group)

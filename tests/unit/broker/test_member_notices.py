"""Members of groups that change are told so."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import Any
from unittest.mock import Mock

import pytest

from rocketpy.broker.clients import Channel, Notify
from rocketpy.broker.member_notices import MemberNotices
from rocketpy.remoting.codes import RequestCode


def test_a_thousand_members_that_come_at_once_are_told_once_each() -> None:
    told: Counter[tuple[str, int]] = Counter()

    def notify(channel: Channel, code: int, fields: Any = None) -> bool:
        assert code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
        told[fields["consumerGroup"], channel.connection_id] += 1
        return channel.connection_id != 7

    async def scenario() -> None:
        notices = MemberNotices(Mock(notify=notify))
        channels = [Channel(0, number) for number in range(1000)]
        for count in range(1, 1001):
            notices.add(Notify("g", tuple(channels[:count])))
        notices.add(Notify("h", (channels[0],)))
        await asyncio.sleep(0)
        assert told == Counter({**{("g", number): 1 for number in range(1000)}, ("h", 0): 1})
        notices.add(Notify("g", tuple(channels[:2])))  # one that left is told nothing, a later change is told again
        await asyncio.sleep(0)
        assert [told["g", number] for number in range(4)] == [2, 2, 1, 1]

    asyncio.run(scenario())


def test_who_cannot_be_told_is_one_line_of_the_log_for_each_group(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        notices = MemberNotices(Mock(notify=Mock(return_value=False)))
        notices.add(Notify("g", tuple(Channel(0, number) for number in range(1000))))
        await asyncio.sleep(0)

    with caplog.at_level(logging.INFO, "rocketpy.broker.member_notices"):
        asyncio.run(scenario())
    assert caplog.messages == ["notifyConsumerIdsChanged: 1000 of 1000 clients of group g cannot be told"]

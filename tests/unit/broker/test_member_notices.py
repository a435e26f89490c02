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


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


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
        await turns(2)
        assert told == Counter({**{("g", number): 1 for number in range(1000)}, ("h", 0): 1})
        notices.add(Notify("g", tuple(channels[:2])))  # one that left is told nothing, a later change is told again
        await asyncio.sleep(0)
        assert [told["g", number] for number in range(4)] == [2, 2, 1, 1]

    asyncio.run(scenario())


def test_others_have_their_turn_between_the_notices_of_many_groups() -> None:
    """A process that ends in hundreds of groups of as many members held up the event loop for seconds."""
    told: list[tuple[str, int]] = []

    def notify(channel: Channel, code: int, fields: Any = None) -> bool:
        told.append((fields["consumerGroup"], channel.connection_id))
        return True

    async def scenario() -> None:
        notices = MemberNotices(Mock(notify=notify))
        members = [Channel(0, number) for number in range(600)]
        for number in range(10):
            notices.add(Notify(f"g{number}", tuple(members)))
        in_a_turn = []
        while len(told) < 6000:
            before = len(told)
            await turns(1)
            in_a_turn.append(len(told) - before)
            assert len(in_a_turn) <= 12
        assert max(in_a_turn) <= 1000 and len(set(told)) == len(told)
        notices.add(Notify("large", tuple(Channel(0, number) for number in range(1500))))
        await turns(1)
        notices.add(Notify("large", tuple(members)))  # before all have heard of the change before
        await turns(2)
        assert Counter(told)["large", 7] == 2 and Counter(told)["large", 999] == 1 and ("large", 1200) not in told

    asyncio.run(scenario())


def test_all_members_of_a_large_group_are_told_however_often_it_changes() -> None:
    """A group of more members than one turn tells, which somebody joins in every turn: those at the end heard nothing until that ended."""
    told: Counter[tuple[str, int]] = Counter()

    def notify(channel: Channel, code: int, fields: Any = None) -> bool:
        told[fields["consumerGroup"], channel.connection_id] += 1
        return True

    async def scenario() -> None:
        notices = MemberNotices(Mock(notify=notify))
        channels = [Channel(0, number) for number in range(3000)]
        notices.add(Notify("other", tuple(channels[:5])))
        for turn in range(30):
            before = told.copy()
            notices.add(Notify("g", tuple(channels[turn : 2500 + turn])))  # one leaves, too
            await turns(1)
        assert sum(told.values()) == 30_000 and told["other", 4] == 1
        assert min(told["g", number] for number in range(29, 2500)) >= 10 and told["g", 2510] >= 6, "every third time"
        await turns(2)
        assert told - before == Counter({("g", number): 1 for number in range(29, 2529)}), "of the last change, everybody hears once"
        assert not notices._due and not notices._ahead

    asyncio.run(scenario())


def test_who_cannot_be_told_is_one_line_of_the_log_for_each_group(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        notices = MemberNotices(Mock(notify=Mock(return_value=False)))
        notices.add(Notify("g", tuple(Channel(0, number) for number in range(1000))))
        await asyncio.sleep(0)

    with caplog.at_level(logging.INFO, "rocketpy.broker.member_notices"):
        asyncio.run(scenario())
    assert caplog.messages == ["notifyConsumerIdsChanged: 1000 of 1000 clients of group g cannot be told"]

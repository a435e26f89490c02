"""Numbers of queues that are out of the ordinary: more than there may be, fewer than there were, none to read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rocketpy.broker.subscriptions import GroupConfig
from rocketpy.remoting.codes import RequestCode, ResponseCode
from tests.unit.broker.running import run, running


@pytest.mark.parametrize("count", [-1, 65_537, 1 << 31])
def test_a_group_with_a_number_of_retry_queues_that_cannot_be_is_refused(tmp_path: Path, count: int) -> None:
    async def check() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            answer = await peer.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, {"groupName": "g", "retryQueueNums": count})
            assert answer.code == ResponseCode.INVALID_PARAMETER
            assert answer.remark == f"retryQueueNums = {count} is not in 0..65536"

    run(check)


@pytest.mark.parametrize("name", ["retryMaxTimes", "groupSysFlag", "consumeTimeoutMinute"])
def test_a_group_with_a_number_that_rocketmq_cannot_read_is_refused(tmp_path: Path, name: str) -> None:
    """Its slaves and tools would read none of the groups any more."""

    async def check() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            group = {"groupName": "g", name: 1 << 31}
            for code, body in (
                (RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, group),
                (RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, {"groupConfigList": [group]}),
            ):
                answer = await peer.ask(code, {}, body)
                assert (answer.code, answer.remark) == (ResponseCode.INVALID_PARAMETER, f"{name} = 2147483648 is not a number of 32 bits")
            assert (await peer.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, {"groupName": "g", name: (1 << 31) - 1})).code == 0

    run(check)


UNREADABLE = (
    {"groupRetryPolicy": {"type": 5}},
    {"groupRetryPolicy": {"exponentialRetryPolicy": 7}},
    {"groupRetryPolicy": {"exponentialRetryPolicy": {"initial": "abc"}}},
    {"groupRetryPolicy": {"exponentialRetryPolicy": {"max": 1 << 63}}},
    {"groupRetryPolicy": {"customizedRetryPolicy": {"next": ["x"]}}},
    {"groupRetryPolicy": {"customizedRetryPolicy": {"next": 7}}},
    {"subscriptionDataSet": 7},
    {"subscriptionDataSet": [7]},
    {"subscriptionDataSet": [{"topic": "t", "version": "x"}]},
)
"""Each of them made RocketMQ 5.5.0's SubscriptionGroupWrapper refuse the whole table."""
READABLE = (
    {"groupRetryPolicy": {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 5000, "max": 7200000, "multiplier": 2}}},
    {"groupRetryPolicy": {"type": None, "customizedRetryPolicy": {"next": [1000, 5000]}}},
    {"groupRetryPolicy": None, "subscriptionDataSet": None},
    {"subscriptionDataSet": [{"topic": "t", "expressionType": "TAG", "expression": "*", "version": 1}]},
)


@pytest.mark.parametrize("members", UNREADABLE)
def test_a_group_with_a_member_that_rocketmq_cannot_read_is_refused(tmp_path: Path, members: dict[str, Any]) -> None:
    async def check() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            answer = await peer.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, {"groupName": "g", **members})
            assert answer.code == ResponseCode.INVALID_PARAMETER
            assert answer.remark is not None and answer.remark.startswith(f"{next(iter(members))} is not ")
            assert "g" not in (await peer.value(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG))["subscriptionGroupTable"]
            for good in READABLE:
                assert (await peer.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, {"groupName": "g", **good})).code == 0

    run(check)


def test_a_topic_with_flags_beyond_32_bits_is_refused(tmp_path: Path) -> None:
    async def check() -> None:
        async with running(tmp_path) as at:
            topic = {"topicName": "t", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6, "topicSysFlag": 1 << 31}
            answer = await at.peer().ask(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, {}, {"topicConfigList": [topic]})
            assert (answer.code, answer.remark) == (ResponseCode.INVALID_PARAMETER, "topicSysFlag = 2147483648 is not a number of 32 bits")

    run(check)


@pytest.mark.parametrize("count", [1 << 31, -(1 << 31) - 1])
def test_a_request_mode_with_such_a_number_is_refused(tmp_path: Path, count: int) -> None:
    async def check() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            mode = {"topic": "TBW102", "consumerGroup": "g", "mode": "POP", "popShareQueueNum": count}
            answer = await peer.ask(RequestCode.SET_MESSAGE_REQUEST_MODE, {}, mode)
            assert (answer.code, answer.remark) == (
                ResponseCode.INVALID_PARAMETER,
                f"popShareQueueNum = {count} is not a number of 32 bits",
            )

    run(check)


@pytest.mark.parametrize(("count", "queues"), [(-1, 0), (70_000, 65_536)])
def test_a_group_of_rocketmqs_file_with_such_a_number_has_consumers_and_the_broker_starts_again(
    tmp_path: Path, count: int, queues: int
) -> None:
    async def check() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            assert (await peer.heartbeat("c", "g", "t")).code == 0
            topic = await peer.value(RequestCode.GET_TOPIC_CONFIG, {"topic": "%RETRY%g"})
            assert topic["readQueueNums"] == topic["writeQueueNums"] == queues
            assert (await peer.value(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "g"})) == {"consumerIdList": ["c"]}

    file = tmp_path / "store/config/subscriptionGroup.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"subscriptionGroupTable": {"g": GroupConfig("g", retry_queues=count).to_json()}}))
    run(check)
    run(check)


def test_a_queue_that_a_topic_no_longer_has_shows_the_messages_it_holds(tmp_path: Path) -> None:
    async def check() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            topic = {"topic": "t", "defaultTopic": "TBW102", "perm": 6, "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": False}
            for count in (4, 1):
                changed = {**topic, "readQueueNums": count, "writeQueueNums": count}
                assert (await peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, changed)).code == 0
                if count == 4:
                    assert (await peer.send("t", queue_id=2)).code == 0
            for code, queue_id, offset in (
                (RequestCode.GET_MAX_OFFSET, 2, "1"),
                (RequestCode.GET_MIN_OFFSET, 2, "0"),
                (RequestCode.GET_MAX_OFFSET, 3, "0"),
                (RequestCode.GET_MAX_OFFSET, -1, "0"),
                (RequestCode.GET_MAX_OFFSET, (1 << 31) - 1, "0"),
            ):
                assert (await peer.ask(code, {"topic": "t", "queueId": queue_id})).fields == {"offset": offset}, (code, queue_id)

    run(check)

"""Numbers of queues that are out of the ordinary: more than there may be, fewer than there were, none to read."""

from __future__ import annotations

import json
from pathlib import Path

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

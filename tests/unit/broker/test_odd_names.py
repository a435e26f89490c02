"""Names and numbers of tags that RocketMQ takes and the native tables cannot hold: what depends on them is told so, all else goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpy.broker.heartbeat import TAGS_MAX
from rocketpy.broker.names import PERM_READ, PERM_WRITE, is_possible
from rocketpy.remoting.codes import RequestCode, ResponseCode
from tests.unit.broker.running import run, running


def test_a_group_whose_retry_topic_cannot_be_reads_nevertheless(tmp_path: Path) -> None:
    """249 to 255 characters: "%RETRY%" in front is more than a name can have. Clients subscribe it."""

    async def test() -> None:
        async with running(tmp_path) as at:
            peer, group = at.peer(), "g" * 255
            at.broker.parts.topics.create_plain("t", 4, PERM_READ | PERM_WRITE)
            beat = await peer.heartbeat("c", group, "t", f"%RETRY%{group}", "")
            assert (beat.code, beat.remark) == (ResponseCode.SUCCESS, None)
            assert (await peer.pull(group, "t", sysFlag=0)).code == ResponseCode.PULL_NOT_FOUND
            assert f"%RETRY%{group}" not in at.broker.parts.topics

    run(test)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("consumerOffset.json", '{"offsetTable":{"t@g":{0:7},"@":{0:1},"t@":{0:1},"%s@g":{0:1}},"lmqOffsetTable":{"none":5}}'),
        ("topics.json", '{"topicConfigTable":{"t":{},"":{},"%s":{}}}'),
        ("subscriptionGroup.json", '{"subscriptionGroupTable":{"g":{},"":{},"%s":{}}}'),
    ],
)
def test_names_that_cannot_be_are_passed_over_in_files_of_rocketmq(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "store" / "config").mkdir(parents=True)
    (tmp_path / "store" / "config" / name).write_text(text % ("x" * 256))

    async def test() -> None:
        async with running(tmp_path) as at:
            parts = at.broker.parts
            assert parts.offsets.query("g", "t", 0) == 7 or "t" in parts.topics or "g" in parts.groups
            assert all(is_possible(config.topic_name) for config in parts.topics)
            assert all(is_possible(group.group) for group in parts.groups)

    run(test)


def test_a_subscription_of_too_many_tags_is_refused_before_and_after_its_consumer_starts(tmp_path: Path) -> None:
    """The fast path cannot filter by so many, and is not asked again."""

    async def test() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            at.broker.parts.topics.create_plain("t", 4, PERM_READ | PERM_WRITE)
            tags = [f"tag{number}" for number in range(TAGS_MAX + 1)]
            subscription = {"topic": "t", "subString": " || ".join(tags), "tagsSet": tags, "subVersion": 1}
            body = {"clientID": "c", "consumerDataSet": [{"groupName": "g", "subscriptionDataSet": [subscription]}]}
            assert (await peer.ask(RequestCode.HEART_BEAT, body=body)).code == ResponseCode.SUCCESS
            checked = await peer.ask(RequestCode.CHECK_CLIENT_CONFIG, body={"subscriptionData": subscription})
            pulled = await peer.pull("g", "t", sysFlag=0, subVersion=1)
            assert checked.code == pulled.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
            assert checked.remark == pulled.remark and f"has {TAGS_MAX + 1} tags" in (pulled.remark or "")
            subscription |= {"tagsSet": tags[:TAGS_MAX], "subVersion": 2}
            assert (await peer.ask(RequestCode.HEART_BEAT, body=body)).code == ResponseCode.SUCCESS
            assert (await peer.pull("g", "t", sysFlag=0, subVersion=2)).code == ResponseCode.PULL_NOT_FOUND

    run(test)

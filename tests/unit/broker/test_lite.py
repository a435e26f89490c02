"""Lite topics as a broker serves them: popped in order, shared, taken over, by groups that read all; what leaves, expires and is asked."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from rocketpy._core.remoting import Command
from rocketpy.broker.lite_lifecycle import LiteQueue, is_expired
from rocketpy.broker.lite_requests import OffsetOption
from rocketpy.broker.lite_sharding import broker_of
from rocketpy.broker.lite_subscriptions import QUOTA_SLACK, Excluded, LiteIllegal, LiteQuotaExceeded, LiteSubscriptions, Reset
from rocketpy.broker.names import consistent_hash, lite_parts, lite_queue
from rocketpy.broker.subscriptions import GroupConfig
from rocketpy.remoting.codes import RequestCode, ResponseCode
from tests.unit.broker.recorder import Clock
from tests.unit.broker.running import Peer, Running, eventually, run, running
from tests.unit.broker.test_metrics import PROM, scrape, value

ON = {"enableLmq": "true", "enableMultiDispatch": "true"}
PARENT, GROUP = "parent", "readers"
POP, ACK, CHANGE = RequestCode.POP_LITE_MESSAGE, RequestCode.ACK_MESSAGE, RequestCode.CHANGE_MESSAGE_INVISIBLETIME


def bodies(answer: Command) -> list[bytes]:
    """Of the records of an answer."""
    found, at = [], 0
    while at < len(answer.body):
        (size,) = struct.unpack_from(">i", answer.body, at)
        (length,) = struct.unpack_from(">i", answer.body, at + 84)
        found.append(answer.body[at + 88 : at + 88 + length])
        at += size
    return found


class Lite:
    """A lite client's requests."""

    def __init__(self, peer: Peer, client: str, group: str = GROUP) -> None:
        self.peer, self.client, self.group = peer, client, group

    async def control(self, action: str, *lite: str, **more: Any) -> Command:
        entry = {"action": action, "clientId": self.client, "group": self.group, "topic": PARENT, "liteTopicSet": list(lite), **more}
        return await self.peer.ask(RequestCode.LITE_SUBSCRIPTION_CTL, {}, {"subscriptionSet": [entry]})

    async def pop(self, poll_ms: int = 0, count: int = 32, invisible_ms: int = 60_000, **more: Any) -> Command:
        header = {
            "clientId": self.client, "consumerGroup": self.group, "topic": PARENT, "maxMsgNum": count, "invisibleTime": invisible_ms,
            "pollTime": poll_ms, "bornTime": 1, **more,
        }  # fmt: skip
        return await self.peer.ask(POP, header)

    async def ack(self, lite: str, offset: int, popped: Command, code: int = ACK, **more: Any) -> Command:
        pop_ms, invisible_ms, queue = (popped.fields[name] for name in ("popTime", "invisibleTime", "reviveQid"))
        header = {
            "consumerGroup": self.group, "topic": PARENT, "queueId": 0, "offset": offset, "liteTopic": lite, "invisibleTime": 60_000,
            "extraInfo": f"0 {pop_ms} {invisible_ms} {queue} 0 broker-a 0 {offset}", **more,
        }  # fmt: skip
        return await self.peer.ask(code, header)


async def make(peer: Peer, *groups: str, topic_attributes: str = "", group_attributes: str = "") -> None:
    attributes = "+message.type=LITE" + topic_attributes
    header = {
        "topic": PARENT, "defaultTopic": "TBW102", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6, "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0, "order": False, "attributes": attributes,
    }  # fmt: skip
    assert (await peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, header)).code == 0
    for group in groups or (GROUP,):
        wanted = {name[1:]: value for name, _, value in (each.partition("=") for each in group_attributes.split(",") if each)}
        attributes_of = {f"+{name}": value for name, value in {"lite.bind.topic": PARENT, **wanted}.items()}
        answer = await peer.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, {"groupName": group, "attributes": attributes_of})
        assert answer.code == 0, answer.remark


async def send(peer: Peer, lite: str, body: bytes, more: str = "") -> Command:
    return await peer.send(PARENT, body, f"__LITE_TOPIC\x01{lite}\x02{more}")


def on(test: Callable[[Running], Awaitable[None]], home: Path, **settings: str) -> None:
    async def whole() -> None:
        async with running(home, **ON, **settings) as at:
            await test(at)

    run(whole)


async def operators_see_one_message_left(peer: Peer) -> None:
    """What the broker tells of lite topics a and b when all three messages of a are consumed, and the one of b is not."""
    search = {"topic": PARENT, "queueId": 0, "timestamp": 1 << 42}
    found = [(await peer.ask(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, {**search, "liteTopic": lite})).fields for lite in ("a", "x", "$")]
    assert found == [{"offset": "3"}, {"offset": "0"}, {"offset": "0"}]
    info = await peer.value(RequestCode.GET_LITE_TOPIC_INFO, {"parentTopic": PARENT, "liteTopic": "a"})
    assert info["topicOffset"]["maxOffset"] == 3 and info["subscriber"] == [{"clientId": "c1", "group": GROUP}]
    client = await peer.value(RequestCode.GET_LITE_CLIENT_INFO, {"parentTopic": PARENT, "group": GROUP, "clientId": "c1", "maxCount": 1})
    assert (client["liteTopicCount"], client["liteTopicSet"]) == (2, ["%LMQ%$parent$a"]) and client["lastAccessTime"] > 0
    of_group = await peer.value(RequestCode.GET_LITE_GROUP_INFO, {"group": GROUP, "topK": 5})
    assert of_group["totalLagCount"] == 1 and [each["liteTopic"] for each in of_group["lagCountTopK"]] == ["b"]
    brokers = await peer.value(RequestCode.GET_BROKER_LITE_INFO)
    assert (brokers["currentLmqNum"], brokers["liteSubscriptionCount"], brokers["topicMeta"]) == (2, 2, {PARENT: -1})
    parent = await peer.value(RequestCode.GET_PARENT_TOPIC_INFO, {"topic": PARENT})
    assert (parent["liteTopicCount"], parent["groups"]) == (2, [GROUP])


def test_lite_topics_are_popped_in_order_and_who_waits_is_woken(tmp_path: Path) -> None:
    async def test(at: Running) -> None:
        peer, lite = at.peer(), Lite(at.peer(), "c1")
        await make(peer)
        assert (await lite.control("PARTIAL_ADD", "a", "b")).code == 0
        assert (await send(peer, "a", b"a0")).code == 0
        assert (await send(peer, "a", b"a1")).code == 0
        first = await lite.pop()
        assert bodies(first) == [b"a0", b"a1"]
        assert (first.fields["orderCountInfo"], first.fields["reviveQid"]) == ("0;0", "999")
        waiting = asyncio.create_task(lite.pop(60_000))
        assert (await send(peer, "a", b"a2")).code == 0  # behind what is out: nobody gets it yet
        assert (await send(peer, "b", b"b0")).code == 0
        assert bodies(await waiting) == [b"b0"]
        assert (await lite.pop()).code == ResponseCode.POLLING_TIMEOUT
        waiting = asyncio.create_task(lite.pop(60_000))
        assert (await lite.ack("a", 1, first)).code == 0
        assert (await lite.ack("a", 0, first)).code == 0
        second = await waiting
        assert bodies(second) == [b"a2"]
        changed = await lite.ack("a", 2, second, CHANGE, invisibleTime=0)
        assert changed.code == 0 and changed.fields["reviveQid"] == "999"
        again = await lite.pop(60_000)
        assert (bodies(again), again.fields["orderCountInfo"]) == ([b"a2"], "1")
        assert (await lite.ack("a", 2, again, CHANGE, invisibleTime=0, suspend=True)).code == 0
        again = await lite.pop(60_000)  # it was not consumed
        assert (bodies(again), again.fields["orderCountInfo"]) == ([b"a2"], "1")
        assert (await lite.ack("a", 99, again)).code == ResponseCode.NO_MESSAGE
        assert (await lite.ack("a", 2, again, topic="parent", queueId=1)).code == ResponseCode.INVALID_PARAMETER
        assert (await lite.ack("a", 2, again)).code == 0
        query = {"consumerGroup": GROUP, "topic": "%LMQ%$parent$a", "queueId": 0}
        assert (await peer.ask(RequestCode.QUERY_CONSUMER_OFFSET, query)).fields["offset"] == "3"
        await operators_see_one_message_left(peer)
        samples = await scrape(at.broker.metrics_port)
        labels = {"consumer_group": GROUP, "topic": PARENT}
        assert value(samples, "rocketmq_consumer_lag_messages", **labels) == 1
        assert value(samples, "rocketmq_consumer_lag_latency_milliseconds", **labels) > 0

    on(test, tmp_path, **PROM, liteLagCountMetricsEnable="true", liteLagLatencyMetricsEnable="true")


def test_what_comes_again_comes_when_its_time_is_over(tmp_path: Path) -> None:
    async def test(at: Running) -> None:
        peer, lite = at.peer(), Lite(at.peer(), "c1")
        await make(peer)
        assert (await send(peer, "a", b"a0")).code == 0
        assert (await lite.control("COMPLETE_ADD", "a")).code == 0  # behind it
        first = await lite.pop(invisible_ms=200)
        again = await lite.pop(60_000)
        assert bodies(first) == bodies(again) == [b"a0"] and again.fields["orderCountInfo"] == "1"
        assert (await lite.ack("a", 0, first)).code == 0, "of the first pop: nothing happens"
        assert (await lite.pop()).code == ResponseCode.POLLING_TIMEOUT
        assert (await lite.control("PARTIAL_ADD", "a", offsetOption={"type": "POLICY", "value": 1})).code == 0
        assert (await lite.ack("a", 0, again)).code == 0
        assert (await lite.control("PARTIAL_ADD", "a", offsetOption={"type": "OFFSET", "value": 0})).code == 0
        assert bodies(await lite.pop()) == [b"a0"], "its offset was set"

    on(test, tmp_path)


def test_a_lite_topic_is_shared_or_taken_over(tmp_path: Path) -> None:
    async def test(at: Running) -> None:
        peer = at.peer()
        one, two = Lite(at.peer(), "c1"), Lite(at.peer(), "c2")
        await make(peer)
        for each in (one, two):
            assert (await each.control("PARTIAL_ADD", "a")).code == 0
        waiting = [asyncio.create_task(each.pop(60_000)) for each in (one, two)]
        assert (await send(peer, "a", b"a0")).code == 0
        done, left = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        (first,), (other,) = done, left
        assert bodies(first.result()) == [b"a0"]
        assert (await one.ack("a", 0, first.result())).code == 0
        assert (await send(peer, "a", b"a1")).code == 0
        assert bodies(await other) == [b"a1"]

        alone = [Lite(at.peer(), name, "alone") for name in ("c1", "c2")]
        await make(peer, "alone", group_attributes="+lite.sub.model=Exclusive,+lite.sub.reset.offset.exclusive=true")
        for each in alone:
            assert (await each.control("PARTIAL_ADD", "a")).code == 0
        told = alone[0].peer.requests
        await eventually(lambda: told, "the notice")
        assert [(each.code, each.fields["liteTopic"], each.fields["clientId"]) for each in told] == [
            (RequestCode.NOTIFY_UNSUBSCRIBE_LITE, "a", "c1")
        ]
        assert bodies(await alone[1].pop()) == [b"a0", b"a1"] and (await alone[0].pop()).code == ResponseCode.POLLING_TIMEOUT

    on(test, tmp_path)


def test_a_wildcard_group_reads_all(tmp_path: Path) -> None:
    async def test(at: Running) -> None:
        peer, one, two = at.peer(), Lite(at.peer(), "c1", "all"), Lite(at.peer(), "c2", "all")
        await make(peer, "all", group_attributes="+lite.sub.wildcard=true")
        assert (await send(peer, "before", b"0")).code == 0
        assert (await one.control("PARTIAL_ADD", "x")).code == ResponseCode.ILLEGAL_OPERATION
        assert (await one.control("COMPLETE_ADD")).code == 0
        first = await one.pop()
        assert bodies(first) == [b"0"] and (await one.ack("before", 0, first)).code == 0
        waiting = [asyncio.create_task(each.pop(60_000)) for each in (one, two)]
        for number in (1, 2):
            assert (await send(peer, f"new{number}", b"%d" % number)).code == 0
        assert sorted([body for each in waiting for body in bodies(await each)]) == [b"1", b"2"]
        assert (await peer.value(RequestCode.GET_LITE_TOPIC_INFO, {"parentTopic": PARENT, "liteTopic": "new1"}))["subscriber"] == [
            {"clientId": "*", "group": "all"}
        ]
        assert (await one.control("COMPLETE_REMOVE")).code == 0
        assert (await send(peer, "late", b"3")).code == 0
        assert (await two.pop()).code == ResponseCode.POLLING_TIMEOUT, "nobody of the group has said that it reads"
        assert (await two.control("COMPLETE_ADD")).code == 0
        assert bodies(await two.pop()) == [b"3"]

    on(test, tmp_path)


def test_what_is_refused(tmp_path: Path) -> None:
    async def test(at: Running) -> None:
        peer, lite = at.peer(), Lite(at.peer(), "c1")
        await make(peer)
        for name in ("a$b", "a,%LMQ%b", "x" * 250, "a/b"):
            assert (await send(peer, name, b"x")).code == ResponseCode.MESSAGE_ILLEGAL, name
        assert (await send(peer, "a", b"x", "INNER_MULTI_DISPATCH\x01nonsense\x02")).code == 0, "which it is not in"
        assert (await peer.send(PARENT, b"x" * 16, "__LITE_TOPIC\x01a\x02", m=True)).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert (await lite.pop(topic="TBW102")).code == ResponseCode.INVALID_PARAMETER
        assert (await lite.pop(topic="nowhere")).code == ResponseCode.TOPIC_NOT_EXIST
        assert (await lite.pop(count=33)).code == (await lite.pop(count=0)).code == ResponseCode.INVALID_PARAMETER
        assert (await lite.pop(attemptId="x" * 300)).code == (await lite.pop(clientId="")).code
        assert (await Lite(peer, "c1", "nobody").pop()).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        assert (await peer.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, {"groupName": "plain"})).code == 0
        assert (await Lite(peer, "c1", "plain").pop()).code == ResponseCode.INVALID_PARAMETER
        for action in ("PARTIAL_ADD", "COMPLETE_ADD"):
            assert (await Lite(peer, "c1", "plain").control(action, "a")).code == 0, "as by RocketMQ, to no effect"
        assert (await peer.value(RequestCode.GET_BROKER_LITE_INFO))["liteSubscriptionCount"] == 0
        assert (await peer.ask(RequestCode.LITE_SUBSCRIPTION_CTL)).code == ResponseCode.ILLEGAL_OPERATION
        assert (await peer.ask(RequestCode.LITE_SUBSCRIPTION_CTL, {}, {})).code == ResponseCode.ILLEGAL_OPERATION
        assert (await Lite(peer, "c1", "nobody").control("PARTIAL_ADD", "a")).code == ResponseCode.ILLEGAL_OPERATION
        assert (await lite.control("PARTIAL_ADD", *(str(number) for number in range(9)))).code == 0
        refused = await lite.control("PARTIAL_ADD", "a", "b", "c")
        assert refused.code == ResponseCode.LITE_SUBSCRIPTION_QUOTA_EXCEEDED and "quota exceeded 10" in (refused.remark or "")

    on(test, tmp_path, maxLiteSubscriptionCount="10")


def test_an_ack_below_all_offsets_commits_none(tmp_path: Path) -> None:
    async def test(at: Running) -> None:
        peer, lite, parts = at.peer(), Lite(at.peer(), "c1"), at.broker.parts
        await make(peer)
        assert parts is not None and (await lite.control("PARTIAL_ADD", "a")).code == 0
        assert (await send(peer, "a", b"a0")).code == 0
        popped = await lite.pop()
        assert (await lite.ack("a", 0, popped)).code == 0
        parts.offsets.delete(GROUP, "%LMQ%$parent$a")
        assert (await lite.ack("a", -(1 << 63), popped)).code == 0
        assert [row for row in parts.native.offsets() if row[0] == GROUP] == []

    on(test, tmp_path)


def test_names_that_clients_make_up_are_bounded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test(at: Running) -> None:
        peer, lite = at.peer(), Lite(at.peer(), "c1")
        await make(peer, GROUP, "others", group_attributes="+lite.sub.client.quota=0")
        many = [str(number) for number in range(QUOTA_SLACK + 1)]
        for action in ("PARTIAL_ADD", "COMPLETE_ADD"):
            assert (await lite.control(action, *many)).code == ResponseCode.LITE_SUBSCRIPTION_QUOTA_EXCEEDED
        assert (await peer.value(RequestCode.GET_BROKER_LITE_INFO))["liteSubscriptionCount"] == 0
        begin = {"offsetOption": {"type": "POLICY", "value": 2}}
        for name in many[:8]:
            assert (await lite.control("PARTIAL_ADD", name, **begin)).code == 0
            assert (await lite.control("PARTIAL_REMOVE", name, "of nobody", "$")).code == 0
        assert (await Lite(peer, "c1", "others").control("PARTIAL_ADD", many[0], **begin)).code == 0, "its offset is another"
        assert (await Lite(peer, "c1", "others").control("COMPLETE_REMOVE")).code == 0
        info = await peer.value(RequestCode.GET_BROKER_LITE_INFO)
        assert (info["liteSubscriptionCount"], info["offsetTableSize"]) == (0, 5)
        assert caplog.text.count("one of too many") == 1
        assert (await send(peer, "7", b"m")).code == 0
        assert (await lite.control("PARTIAL_ADD", "7", **begin)).code == 0, "with messages it is a place in a queue"
        assert (await lite.pop()).code == ResponseCode.POLLING_TIMEOUT

    on(test, tmp_path, maxLiteSubscriptionCount="5")


def test_what_a_client_cannot_have_does_not_begin_anew(tmp_path: Path) -> None:
    async def test(at: Running) -> None:
        peer, lite = at.peer(), Lite(at.peer(), "c1")
        await make(peer, group_attributes="+lite.sub.client.quota=0")
        for name in ("0", "1", "x"):
            assert (await send(peer, name, b"m")).code == 0
        assert (await lite.control("PARTIAL_ADD", *map(str, range(1, QUOTA_SLACK)))).code == 0
        parts, begin = at.broker.parts, {"offsetOption": {"type": "POLICY", "value": 2}}
        assert parts is not None
        assert (await lite.control("PARTIAL_ADD", "0", **begin)).code == 0, "the last that it may have"
        refused = await lite.control("PARTIAL_ADD", "1", "x", **begin)
        assert refused.code == ResponseCode.LITE_SUBSCRIPTION_QUOTA_EXCEEDED
        offsets = [parts.offsets.query(GROUP, f"%LMQ%${PARENT}${name}", 0) for name in ("0", "1", "x")]
        assert offsets == [1, 1, -1], "the one that it has does begin"

    on(test, tmp_path)


def test_a_request_is_a_line_in_the_log_however_many_names_it_has(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test(at: Running) -> None:
        peer, lite = at.peer(), Lite(at.peer(), "c1")
        more = ",+lite.sub.model=Exclusive,+lite.sub.reset.offset.exclusive=true"
        await make(peer, group_attributes=more.removeprefix(","))
        for name in "abc":
            assert (await send(peer, name, b"m")).code == 0
        caplog.set_level("INFO", "rocketpy.broker")
        assert (await lite.control("PARTIAL_ADD", *"abc", offsetOption={"type": "POLICY", "value": 2})).code == 0
        assert (await Lite(at.peer(), "c2").control("PARTIAL_ADD", *"abc")).code == 0
        assert caplog.text.count("begins 3 lite queues anew") == 2 and caplog.text.count("3 lite topics of group") == 1
        assert caplog.text.count("lite queue") == 2, caplog.text

    on(test, tmp_path)


def test_a_pull_names_a_lite_topic(tmp_path: Path) -> None:
    async def test(at: Running) -> None:
        peer = at.peer()
        await make(peer, topic_attributes=",+lite.topic.expiration=1")

        async def pull(lite: str, queue: int = 0, offset: int = 0, **more: Any) -> Command:
            return await peer.pull(GROUP, PARENT, queue, offset, liteTopic=lite, **more)

        for number in range(4):
            assert (await send(peer, "ab"[number % 2], b"%d" % number)).code == 0
        found = await pull("a")
        assert (found.code, bodies(found), found.fields["nextBeginOffset"]) == (0, [b"0", b"2"], "2")
        assert bodies(await pull("b", 0, 1, commitOffset=1, sysFlag=5)) == [b"3"]
        assert bodies(await pull(" ", 0, 1)) == bodies(await peer.pull(GROUP, PARENT, 0, 1)) != [], "blanks name none"
        query = {"consumerGroup": GROUP, "topic": PARENT, "queueId": 0, "setZeroIfNotFound": False}
        assert (await peer.ask(RequestCode.QUERY_CONSUMER_OFFSET, query)).code == ResponseCode.QUERY_NOT_FOUND, "which is of another queue"
        assert (await pull("a", 0, 9)).code == ResponseCode.PULL_OFFSET_MOVED
        assert (await pull("a", 1)).code == (await pull("a", -1)).code == ResponseCode.INVALID_PARAMETER, "a lite topic has one queue"
        for name in ("$", "a$b", "a/b", "x" * 250, "\u00a0", "\x7f"):
            assert (await pull(name)).code == ResponseCode.TOPIC_NOT_EXIST, name
        assert (await pull("none yet")).code == ResponseCode.PULL_NOT_FOUND
        waiting = asyncio.create_task(pull("new", sysFlag=6, suspendTimeoutMillis=60_000))
        assert (await send(peer, "a", b"4")).code == (await send(peer, "new", b"5")).code == 0
        assert bodies(await waiting) == [b"5"]
        assert (await peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": PARENT})).code == 0
        assert (await pull("a")).code == ResponseCode.TOPIC_NOT_EXIST

    on(test, tmp_path)


def test_without_light_queues_there_are_no_lite_topics(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            peer, lite = at.peer(), Lite(at.peer(), "c1")
            await make(peer)
            assert (await send(peer, "a", b"x")).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
            assert (await lite.control("PARTIAL_ADD", "a")).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
            assert (await lite.pop()).code == ResponseCode.POLLING_TIMEOUT
            assert (await peer.pull(GROUP, PARENT, 0, 0, liteTopic="a")).code == ResponseCode.TOPIC_NOT_EXIST

    run(test)


def test_idle_lite_topics_go_with_all_that_is_known_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ahead_ms = 0

    async def test(at: Running) -> None:
        nonlocal ahead_ms
        peer, lite = at.peer(), Lite(at.peer(), "c1")
        await make(peer, topic_attributes=",+lite.topic.expiration=1")
        assert (await lite.control("PARTIAL_ADD", "a", "b")).code == 0
        assert (await send(peer, "a", b"a0")).code == (await send(peer, "b", b"b0")).code == 0
        popped = await lite.pop()
        assert (await lite.ack("a", 0, popped)).code == (await lite.ack("b", 0, popped)).code == 0
        cleaner = at.broker._housekeeping._lite
        assert await cleaner.clean_expired() == 0
        ahead_ms = 61_000
        assert await cleaner.clean_expired() == 2
        query: dict[str, Any] = {"consumerGroup": GROUP, "topic": "%LMQ%$parent$a", "queueId": 0}
        info = await peer.value(RequestCode.GET_LITE_TOPIC_INFO, {"parentTopic": PARENT, "liteTopic": "a"})
        assert info["topicOffset"]["maxOffset"] == 0 and info["subscriber"] == []
        query["setZeroIfNotFound"] = False
        assert (await peer.ask(RequestCode.QUERY_CONSUMER_OFFSET, query)).code == ResponseCode.QUERY_NOT_FOUND
        assert (await send(peer, "a", b"anew")).code == 0
        assert (await lite.control("COMPLETE_ADD", "a")).code == 0
        assert bodies(await lite.pop()) == [b"anew"]
        assert (await peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": PARENT})).code == 0
        assert (await peer.value(RequestCode.GET_BROKER_LITE_INFO))["currentLmqNum"] == 0

    from rocketpy.broker import lite_lifecycle

    real = lite_lifecycle.now_ms
    monkeypatch.setattr(lite_lifecycle, "now_ms", lambda: real() + ahead_ms)
    on(test, tmp_path, minLiteTTl="0")


@pytest.mark.parametrize(
    ("minutes", "idle_ms", "wanted"), [(1, 60_001, True), (1, 60_000, False), (0, 1 << 40, False), (-1, 1 << 40, False), (5, 300_001, True)]
)
def test_when_a_lite_topic_expires(minutes: int, idle_ms: int, wanted: bool) -> None:
    now_ms = 1 << 41
    assert is_expired(LiteQueue("q", 1, now_ms - idle_ms), minutes, 1000, now_ms) is wanted
    assert not is_expired(LiteQueue("q", 1, now_ms + 1), minutes, 1000, now_ms)
    assert is_expired(LiteQueue("q", 1, -1), minutes, 1000, now_ms) is (minutes > 0)
    assert not is_expired(LiteQueue("q", 1, now_ms - idle_ms), minutes, 1 << 41, now_ms)


def test_names() -> None:
    assert lite_queue("p", "l") == "%LMQ%$p$l" and lite_parts("%LMQ%$p$l") == ("p", "l")
    wrong = (("", "l"), ("p", ""), ("p", "a$b"), ("p", "a,b"), ("p", "a/b"), ("p", "x" * 250), ("p", "\n"))
    assert [lite_queue(*each) for each in wrong] == [None] * len(wrong)
    assert [lite_parts(each) for each in ("%LMQ%a", "%LMQ%$a", "%LMQ%$a$b$c", "x")] == [None] * 4


def test_a_lite_topic_has_the_broker_that_rocketmqs_has() -> None:
    """By Guava's consistentHash, as 5.5.0 answers."""
    assert [consistent_hash(value, 8) for value in (0, 1, 97, -1, 123456789)] == HASHES
    brokers = [str(number) for number in range(16)]
    assert [broker_of(lite, brokers, "own") for lite in ("a", "lite-1", "größe", "session-000123")] == ["0", "6", "8", "13"]
    assert broker_of("", brokers, "own") == "own" and broker_of("a", [], "own") == "own"


HASHES = [0, 6, 0, 7, 7]


@pytest.mark.parametrize(
    ("option", "target"),
    [(("POLICY", 0), None), (("POLICY", 1), 0), (("POLICY", 2), 9), (("OFFSET", 4), 4), (("OFFSET", -4), 0), (("OFFSET", 99), 9),
     (("TAIL_N", 2), 3), (("TAIL_N", 9), 0), (("TIMESTAMP", 1), None), (("", 1), None)],
)  # fmt: skip
def test_where_a_group_begins(option: tuple[str, int], target: int | None) -> None:
    assert OffsetOption(*option).target(5, 9) == target


class Sink:
    """The native table: what it would hold."""

    def __init__(self) -> None:
        self.readers: set[tuple[str, str, str]] = set()
        self.wildcards: dict[str, str] = {}
        self.missed: set[str] = set()

    def put_lite_reader(self, group: str, client: str, queue: str) -> None:
        self.readers.add((group, client, queue))

    def delete_lite_reader(self, group: str, client: str, queue: str) -> None:
        self.readers.remove((group, client, queue))

    def delete_lite_readers(self, group: str, client: str) -> None:
        assert client == ""
        del self.wildcards[group]

    def put_lite_wildcard(self, group: str, topic: str) -> None:
        self.wildcards[group] = topic

    def lite_wildcard_has_missed(self, group: str) -> bool:
        return group in self.missed

    def forget_lite_queue(self, queue: str) -> None:
        self.readers = {each for each in self.readers if each[2] != queue}


def test_one_client_has_no_more_than_its_quota_and_takes_from_others_what_it_has() -> None:
    sink = Sink()
    groups = {
        "g": GroupConfig("g", attributes={"lite.sub.client.quota": "5"}),
        "one": GroupConfig("one", attributes={"lite.sub.client.quota": "0", "lite.sub.model": "Exclusive"}),
        "any": GroupConfig("any", attributes={"lite.sub.client.quota": "-1"}),
        "usual": GroupConfig("usual"),
    }
    table, channel = LiteSubscriptions(sink, Clock(), groups.get, lambda: 100_000), None
    queues = [f"%LMQ%$t${number}" for number in range(QUOTA_SLACK + 3000)]
    for group, most in (("g", 5), ("usual", 2000)):
        with pytest.raises(LiteQuotaExceeded, match=f"quota exceeded {most} of client c"):
            table.replace(group, "c", "t", queues, channel)  # type: ignore[arg-type]
        client = table.get(group, "c")
        assert client is not None and len(client.queues) == most + QUOTA_SLACK
        with pytest.raises(LiteQuotaExceeded):
            table.add(group, "c", "t", [next(queue for queue in queues if queue not in client.queues)], channel)  # type: ignore[arg-type]
        table.add(group, "c", "t", list(client.queues), channel)  # type: ignore[arg-type]
        table.add(group, "d", "t", queues[:1], channel)  # type: ignore[arg-type]
        assert table.that_fit(group, "c", "t", queues) == [queue for queue in queues if queue in client.queues]
        assert table.that_fit(group, "c", "another", queues) == queues[: most + QUOTA_SLACK], "it begins anew there"
    table.replace("any", "c", "t", queues, channel)  # type: ignore[arg-type]
    table.replace("one", "a", "t", queues[: QUOTA_SLACK - 1], channel)  # type: ignore[arg-type]
    table.add("one", "b", "t", ["%LMQ%$t$last", "%LMQ%$t$before"], channel)  # type: ignore[arg-type]
    with pytest.raises(LiteQuotaExceeded) as refused:
        table.add("one", "a", "t", ["%LMQ%$t$last", "%LMQ%$t$before"], channel)  # type: ignore[arg-type]
    assert refused.value.actions == [Excluded(None, "b", "one", "%LMQ%$t$last")], "who lost one is told, whatever comes behind"
    assert table.readers("%LMQ%$t$last") == {("a", "one")} and table.readers("%LMQ%$t$before") == {("b", "one")}


def test_one_group_leaves_room_for_others_however_many_clients_it_makes_up() -> None:
    groups = {name: GroupConfig(name, attributes={"lite.sub.client.quota": "-1"}) for name in ("g", "late", "more", "last")}
    groups["all"] = GroupConfig("all", attributes={"lite.sub.wildcard": ""})
    table, channel = LiteSubscriptions(Sink(), Clock(), groups.get, lambda: 100), None
    queues = [f"%LMQ%$t${number}" for number in range(200)]
    assert table.that_fit("g", "c0", "t", queues) == queues[:100], "alone, it has all that there may be"
    for client, count in enumerate((30, 30, 30, 10)):
        table.add("g", f"c{client}", "t", queues[:count], channel)  # type: ignore[arg-type]
    with pytest.raises(LiteQuotaExceeded, match="exceeded 100: 100 are of group g, and those beyond are for groups that have few"):
        table.add("g", "c4", "t", queues[:1], channel)  # type: ignore[arg-type]
    assert table.that_fit("g", "c0", "another", queues) == queues[:30], "it begins anew there"
    table.replace("all", "c", "t", (), channel)  # type: ignore[arg-type]
    assert table.that_fit("late", "c", "t", queues) == queues[:9]
    table.replace("late", "c", "t", queues[:5], channel)  # type: ignore[arg-type]
    table.replace("more", "c", "t", queues[:4], channel)  # type: ignore[arg-type]
    with pytest.raises(LiteQuotaExceeded, match=r"exceeded 100$"):
        table.replace("last", "c", "t", queues[:1], channel)  # type: ignore[arg-type]
    table.remove_client("g", "c0")
    table.forget(queues[0])
    table.remove_client("all", "c")
    assert table.count == 29 + 29 + 9 + 4 + 3 and table.that_fit("g", "c4", "t", queues) == queues[: 100 - 74]
    for name in ("g", "late", "more"):
        for client in list(table):
            table.remove_client(name, client.client_id)
    assert table.count == 0 and table.that_fit("last", "c", "t", queues) == queues[:100]


def test_decisions_about_subscriptions() -> None:
    clock, sink = Clock(), Sink()
    groups = {
        "g": GroupConfig("g"),
        "one": GroupConfig("one", attributes={"lite.sub.model": "Exclusive", "lite.sub.reset.offset.exclusive": "true"}),
        "left": GroupConfig("left", attributes={"lite.sub.reset.offset.unsubscribe": "true"}),
        "all": GroupConfig("all", attributes={"lite.sub.wildcard": ""}),
        "off": GroupConfig("off", consume_enable=False),
    }
    table, channel = LiteSubscriptions(sink, clock, groups.get, lambda: 6), None
    q1, q2, q3 = (f"%LMQ%$t${number}" for number in range(3))
    assert table.add("g", "c", "t", [q1, q2], channel) == [] and table.count == 2  # type: ignore[arg-type]
    table.replace("g", "c", "t", [q2, q3], channel)  # type: ignore[arg-type]
    assert sink.readers == {("g", "c", q2), ("g", "c", q3)} and table.count == 2
    assert table.add("one", "a", "t", [q1], channel) == []  # type: ignore[arg-type]
    assert table.add("one", "a", "t", [q1], channel) == [], "what it has already it keeps"  # type: ignore[arg-type]
    assert table.add("one", "b", "t", [q1], channel) == [Excluded(None, "a", "one", q1), Reset("one", q1)]  # type: ignore[arg-type]
    assert table.get("one", "a") is None and table.readers(q1) == {("b", "one")}
    table.add("left", "c", "t", [q1], channel)  # type: ignore[arg-type]
    assert table.remove("left", "c", [q1, q2]) == [Reset("left", q1)] and table.remove("left", "c", [q1]) == []
    for group in ("off", "nobody"):
        with pytest.raises(LiteIllegal):
            table.add(group, "c", "t", [q1], channel)  # type: ignore[arg-type]
    with pytest.raises(LiteIllegal):
        table.add("all", "c", "t", [q1], channel)  # type: ignore[arg-type]
    table.replace("all", "c", "t", [], channel)  # type: ignore[arg-type]
    table.replace("all", "d", "t", [], channel)  # type: ignore[arg-type]
    assert sink.wildcards == {"all": "t"} and table.count == 5 and ("*", "all") in table.readers(q3)
    with pytest.raises(LiteQuotaExceeded):
        table.replace("g", "other", "t", [q1, q2, q3], channel)  # type: ignore[arg-type]
    assert table.count == 6
    table.remove_client("g", "other")
    sink.missed.add("all")
    sink.wildcards.clear()
    table.tell_missed()
    assert sink.wildcards == {"all": "t"}
    clock.ms += 100
    table.replace("all", "d", "t", [], channel)  # type: ignore[arg-type]
    table.forget(q1)
    gone = {(each.group, each.client_id) for each in table.scan(99)}
    assert gone == {("g", "c"), ("all", "c")} and sink.wildcards == {"all": "t"} and sink.readers == set()
    table.remove_client("all", "d")
    assert table.count == 0 and sink.wildcards == {} and list(table) == []

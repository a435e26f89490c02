"""Lite topics: the same requests to RocketMQ 5.5.0 and to ours, and what both say; what one has written the other goes on with."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.processes import wait_until

from . import stored, wire
from .products import Cluster, Product
from .test_light_queues import SETTINGS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
PARENT, GROUP, CLIENT = "parent", "readers", "client"
SEND_V2, ACK, CHANGE, POP_LITE, CONTROL, UPDATE_TOPIC, UPDATE_GROUP, QUERY_OFFSET = 310, 200051, 200053, 200070, 200071, 17, 200, 14
PULL = 11
BROKER_INFO, PARENT_INFO, TOPIC_INFO, CLIENT_INFO, GROUP_INFO, DISPATCH = 200074, 200075, 200076, 200077, 200078, 200079
TIMEOUT = 210


def ask(cluster: Cluster, code: int, body: Any = None, **fields: Any) -> wire.Reply:
    texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in fields.items()}
    return wire.call(cluster.broker.address, code, texts, b"" if body is None else json.dumps(body).encode())


def make(cluster: Cluster, *groups: tuple[str, dict[str, str]]) -> None:
    cluster.create_topic(PARENT, queues=4)
    topic = {
        "topic": PARENT, "defaultTopic": "TBW102", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6, "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0, "order": False, "attributes": "+message.type=LITE",
    }  # fmt: skip
    assert ask(cluster, UPDATE_TOPIC, **topic).code == 0
    for group, attributes in groups or ((GROUP, {}),):
        signed = {f"+{name}": value for name, value in {"lite.bind.topic": PARENT, **attributes}.items()}
        assert ask(cluster, UPDATE_GROUP, {"groupName": group, "attributes": signed}).code == 0


def send(cluster: Cluster, lite: str, body: str) -> int:
    fields = {
        "a": "producers", "b": PARENT, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000", "h": "0", "j": "0", "k": "false",
        "i": f"__LITE_TOPIC\x01{lite}\x02UNIQ_KEY\x01{body.upper():0>32}\x02", "l": "0", "m": "false", "n": "broker-a",
    }  # fmt: skip
    return wire.call(cluster.broker.address, SEND_V2, fields, body.encode()).code


def control(cluster: Cluster, action: str, *lite: str, group: str = GROUP, client: str = CLIENT, **more: Any) -> int:
    entry = {"action": action, "clientId": client, "group": group, "topic": PARENT, "liteTopicSet": list(lite), **more}
    return ask(cluster, CONTROL, {"subscriptionSet": [entry]}).code


def pop(cluster: Cluster, poll_ms: int = 0, invisible_ms: int = 60_000, **more: Any) -> wire.Reply:
    header = {
        "clientId": CLIENT,
        "consumerGroup": GROUP,
        "topic": PARENT,
        "maxMsgNum": 32,
        "invisibleTime": invisible_ms,
        "pollTime": poll_ms,
    }
    return ask(cluster, POP_LITE, **{**header, "bornTime": 0, **more})


def bodies(reply: wire.Reply) -> list[str]:
    return sorted(record.body.decode() for record in stored.parse(reply.body)) if reply.code == 0 else []


def comes(cluster: Cluster, invisible_ms: int = 60_000, **more: Any) -> wire.Reply:
    """The next pop that gets something. RocketMQ on a busy machine leaves a pop without any answer now and then."""
    found: list[wire.Reply] = []

    def is_there() -> bool:
        with contextlib.suppress(TimeoutError):
            found.append(pop(cluster, 3_000, invisible_ms, **more))
        return bool(found and bodies(found[-1]))

    wait_until(is_there, 150, "something to pop")
    return found[-1]


def counts(reply: wire.Reply) -> list[int]:
    """How often each message was popped before, as RocketMQ's clients read it."""
    return [int(each.split(" ")[2] if "qo" in each else each) for each in reply.fields["orderCountInfo"].split(";")]


def ack(cluster: Cluster, popped: wire.Reply, lite: str, offset: int, code: int = ACK, **more: Any) -> wire.Reply:
    pop_ms, invisible_ms, queue = (popped.fields[name] for name in ("popTime", "invisibleTime", "reviveQid"))
    header = {
        "consumerGroup": GROUP, "topic": PARENT, "queueId": 0, "offset": offset, "liteTopic": lite, "invisibleTime": 1000,
        "extraInfo": f"0 {pop_ms} {invisible_ms} {queue} 0 broker-a 0 {offset}",
    }  # fmt: skip
    return ask(cluster, code, **{**header, **more})


def committed(cluster: Cluster, lite: str) -> int:
    return cluster.committed(GROUP, f"%LMQ%${PARENT}${lite}", 0)


def shown(reply: wire.Reply, *members: str) -> Any:
    return reply.code, {name: reply.json().get(name) for name in members} if reply.code == 0 and reply.body else None


def what_is_popped(cluster: Cluster) -> dict[str, Any]:
    """Messages come, are acked, come again."""
    said: dict[str, Any] = {"subscribe": control(cluster, "PARTIAL_ADD", "a", "b"), "nothing": pop(cluster).code}
    said["sends"] = [send(cluster, lite, body) for lite, body in (("a", "a0"), ("a", "a1"), ("b", "b0"), ("c", "c0"))]
    found = [comes(cluster)]
    while len([body for each in found for body in bodies(each)]) < 3:  # RocketMQ dispatches a moment later
        found.append(comes(cluster))
    said["first"] = sorted(body for each in found for body in bodies(each))
    said["queue"] = {each.fields["reviveQid"] for each in found}
    first = next(each for each in found if "a1" in bodies(each))
    of_b = next(each for each in found if "b0" in bodies(each))
    said["blocked"] = pop(cluster).code
    said["out of order"] = ack(cluster, first, "a", 1).code, committed(cluster, "a")
    said["in order"] = ack(cluster, first, "a", 0).code, committed(cluster, "a")
    said["twice"] = ack(cluster, first, "a", 0).code
    said["b"] = ack(cluster, of_b, "b", 0).code, committed(cluster, "b")
    said["behind the end"] = ack(cluster, first, "a", 3).code, ack(cluster, first, "nowhere", 1).code
    said["another queue"] = (
        ack(cluster, first, "a", 2, queueId=1).code,
        ack(cluster, first, "a", 2, extraInfo="0 1 1 0 0 broker-a 0 2").code,
    )
    said["another group"] = ack(cluster, first, "a", 2, consumerGroup="nobody").code
    said["woken"] = send(cluster, "a", "a2")
    again = comes(cluster, 500)
    said["counted"] = [bodies(again), counts(again)]
    again = comes(cluster)
    said["counted again"] = [bodies(again), counts(again)]
    changed = ack(cluster, again, "a", 2, CHANGE)
    said["changed"] = changed.code, changed.fields["reviveQid"], int(changed.fields["invisibleTime"]) < 10_000
    again = comes(cluster)
    said["after the change"] = [bodies(again), counts(again)]
    said["suspended"] = ack(cluster, again, "a", 2, CHANGE, suspend=True).code
    again = comes(cluster)
    said["as if it had not been popped"] = [bodies(again), counts(again)]
    said["the last"] = ack(cluster, again, "a", 2).code, committed(cluster, "a")
    said["change behind"] = ack(cluster, again, "a", 1, CHANGE).code, ack(cluster, again, "a", 9, CHANGE).code
    return said


def pulled(cluster: Cluster, lite: str, offset: int, **more: Any) -> tuple[Any, ...]:
    header = {
        "consumerGroup": GROUP, "topic": PARENT, "queueId": 0, "queueOffset": offset, "maxMsgNums": 32, "sysFlag": 4, "commitOffset": 0,
        "suspendTimeoutMillis": 0, "subscription": "*", "subVersion": 0, "expressionType": "TAG", "liteTopic": lite,
    }  # fmt: skip
    reply = ask(cluster, PULL, **{**header, **more})
    return reply.code, bodies(reply), *(reply.fields.get(name) for name in ("nextBeginOffset", "minOffset", "maxOffset"))


def what_is_pulled(cluster: Cluster) -> dict[str, Any]:
    """By the lite topic's name beside its parent's."""
    said: dict[str, Any] = {f"a from {offset}": pulled(cluster, "a", offset) for offset in (0, 2, 3, 9, -1)}
    said["b"] = pulled(cluster, "b", 0)
    said["none"] = pulled(cluster, "x", 0)[0], pulled(cluster, "x", 5)[0]
    said["blank"] = pulled(cluster, " ", 1), pulled(cluster, "", 1)
    said["lite pull"] = ask(cluster, 361).code
    said["nobody's"] = pulled(cluster, "a", 0, topic="nowhere")[0], pulled(cluster, "a", 0, queueId=9)[0]
    return said


def what_is_asked(cluster: Cluster) -> dict[str, Any]:
    said: dict[str, Any] = {}
    topic = ask(cluster, TOPIC_INFO, parentTopic=PARENT, liteTopic="a")
    said["topic"] = shown(topic, "parentTopic", "liteTopic", "shardingToBroker", "subscriber")
    said["bounds"] = {name: topic.json()["topicOffset"][name] for name in ("minOffset", "maxOffset")}
    said["no topic"] = [ask(cluster, TOPIC_INFO, parentTopic=parent, liteTopic="a").code for parent in ("nowhere", "TBW102")] + [
        ask(cluster, PARENT_INFO, topic="nowhere").code
    ]
    said["unknown lite topic"] = shown(ask(cluster, TOPIC_INFO, parentTopic=PARENT, liteTopic="x"), "subscriber", "topicOffset")
    said["parent"] = shown(ask(cluster, PARENT_INFO, topic=PARENT), "topic", "ttl", "groups", "liteTopicCount", "lmqNum")
    asked = {"parentTopic": PARENT, "group": GROUP, "maxCount": 10}
    client = ask(cluster, CLIENT_INFO, **asked, clientId=CLIENT)
    said["client"] = shown(client, "group", "clientId", "liteTopicCount"), sorted(client.json()["liteTopicSet"])
    said["nobody"] = shown(ask(cluster, CLIENT_INFO, **asked, clientId="x"), "liteTopicCount", "liteTopicSet", "lastAccessTime")
    said["refused"] = ask(cluster, CLIENT_INFO, **{**asked, "group": "plain"}).code
    send(cluster, "a", "lag1"), send(cluster, "a", "lag2")
    wait_until(
        lambda: ask(cluster, TOPIC_INFO, parentTopic=PARENT, liteTopic="a").json()["topicOffset"]["maxOffset"] == 5, 20, "dispatched"
    )
    group = ask(cluster, GROUP_INFO, group=GROUP, topK=5)
    said["group"] = shown(group, "group", "parentTopic", "totalLagCount")
    said["lags"] = [(each["liteTopic"], each["lagCount"]) for each in group.json()["lagCountTopK"]]
    of_topic = ask(cluster, GROUP_INFO, group=GROUP, topK=5, liteTopic="a")
    said["lag"] = shown(of_topic, "totalLagCount"), of_topic.json()["liteTopicOffsetWrapper"]["consumerOffset"]
    said["lag of none"] = shown(
        ask(cluster, GROUP_INFO, group=GROUP, topK=5, liteTopic="x"), "totalLagCount", "earliestUnconsumedTimestamp"
    )
    said["plain group"] = ask(cluster, GROUP_INFO, group="plain", topK=5).code, ask(cluster, DISPATCH, group="plain").code
    broker = ask(cluster, BROKER_INFO)
    members = ("maxLmqNum", "currentLmqNum", "liteSubscriptionCount", "topicMeta", "groupMeta", "storeType")
    said["broker"] = shown(broker, *members)
    said["dispatch"] = ask(cluster, DISPATCH, group=GROUP).code
    return said


def what_is_refused(cluster: Cluster) -> dict[str, Any]:
    said: dict[str, Any] = {"no body": ask(cluster, CONTROL).code, "empty": ask(cluster, CONTROL, {"subscriptionSet": []}).code}
    said["blank names"] = control(cluster, "PARTIAL_ADD", "a", client=" ")
    said["wildcard"] = control(cluster, "PARTIAL_ADD", "a", group="all"), control(cluster, "COMPLETE_ADD", group="all", client="w")
    said["all"] = bodies(comes(cluster, consumerGroup="all", clientId="w")) != []
    said["topics"] = [pop(cluster, topic=topic).code for topic in ("nowhere", "TBW102")]
    said["group"] = pop(cluster, consumerGroup="plain").code
    said["many"] = pop(cluster, maxMsgNum=33).code
    said["leaves"] = control(cluster, "PARTIAL_REMOVE", "a"), control(cluster, "COMPLETE_REMOVE"), pop(cluster).code
    return said


def test_both_say_the_same(new_cluster: Callable[..., Cluster], product: Product, peer: Product) -> None:
    clusters = [new_cluster(brokers=[each], **SETTINGS) for each in (product, peer)]
    for cluster in clusters:
        make(cluster, (GROUP, {}), ("all", {"lite.sub.wildcard": "true"}))
        assert ask(cluster, UPDATE_GROUP, {"groupName": "plain"}).code == 0
    ours, theirs = clusters
    for scene in (what_is_popped, what_is_asked, what_is_refused, what_is_pulled):  # RocketMQ makes a queue of what is pulled
        said, wanted = scene(ours), scene(theirs)
        for what, value in wanted.items():
            assert said[what] == value, f"{scene.__name__}: {what}"


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_store_changes_hands(new_cluster: Callable[..., Cluster], product: Product, peer: Product, end: str) -> None:
    cluster = new_cluster(namesrv=product, brokers=[product], **SETTINGS)
    make(cluster)
    for turn, owner in enumerate((peer, product, peer), 1):
        assert control(cluster, "COMPLETE_ADD", "a") == 0
        assert send(cluster, "a", f"turn{turn}") == 0
        popped = comes(cluster)
        assert f"turn{turn}" in bodies(popped)
        assert ack(cluster, popped, "a", turn - 1).code == 0
        wait_until(lambda turn=turn: committed(cluster, "a") == turn, 20, "the ack")
        if end == "kill":
            wait_until(lambda turn=turn: f":{turn}" in _offsets(cluster), 30, "the offset on disk")
            cluster.broker.kill()
        else:
            cluster.broker.stop()
        cluster.broker.product = owner
        cluster.broker.start(cluster.namesrv)
        wait_until(lambda turn=turn: committed(cluster, "a") == turn, 20, "what was acked")


def _offsets(cluster: Cluster) -> str:
    """What the file has of the lite topic, blanks aside."""
    path = cluster.broker.store / "config" / "lmqConsumerOffset.json"
    text = "".join(path.read_text().split()) if path.exists() else ""
    return text[text.find("$a@") :][:40]

"""The same requests about a static topic to two brokers of RocketMQ 5.5.0 and to two of ours, before and after its queues have moved.

Remarks of pulls are left out (ours say the store's status), and times behind the end of a queue whose last piece is empty: 5.5.0 takes the
beginning of that piece in its own offsets for one in global ones.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.processes import wait_until

from . import wire
from .products import Cluster, Product
from .test_admin import ours
from .test_static_topics import EARLIEST, GROUP, MAX, MIN, PULL, QUERY_OFFSET, SEARCH, SEND, TOPIC, UPDATE_OFFSET, sending

pytestmark = pytest.mark.slow

HEARTBEAT, TOPIC_STATS = 34, 202
OFFSETS = (-3, 0, 2, 3, 9, 9_999, 10_000, 10_001, 10_002, 10_050)
QUEUES = (-1, 0, 1, 2)
MOMENTS = ("msgId", "transactionId", "timestamp")


class Side:
    """One product's brokers, and what they answered, by what was asked."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.addresses = {broker.name: broker.address for broker in cluster.brokers}
        self.answers: dict[tuple[Any, ...], Any] = {}

    def ask(self, what: str, broker: str, code: int, body: bytes = b"", **fields: Any) -> wire.Reply:
        texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in fields.items()}
        reply = wire.call(self.addresses[broker], code, {"topic": TOPIC, "consumerGroup": GROUP, **texts}, body)
        said = None if code == PULL and reply.code != 501 else reply.remark or ""
        self.answers[(what, broker, code, *texts.items())] = (
            reply.code,
            said,
            {name: value for name, value in reply.fields.items() if name not in MOMENTS},
        )
        return reply

    def await_end(self, broker: str, queue_id: int, end: int) -> None:
        """RocketMQ's queues are built behind its log."""
        asked = f"end {end}"
        wait_until(lambda: self.ask(asked, broker, MAX, queueId=queue_id).fields.get("offset") == str(end), 30, f"the queue's {asked}")

    def await_knowing(self, broker: str, code: int) -> None:
        """Until a broker has heard from the name server where broker-a is, of which even broker-a asks the times of a static topic."""
        wait_until(lambda: self.ask("known", broker, code, queueId=0).code == 0, 60, f"{broker} knows where broker-a is")

    def ask_everything(self, what: str) -> None:
        pull = {"maxMsgNums": 32, "sysFlag": 4, "commitOffset": 0, "suspendTimeoutMillis": 0, "subscription": "*", "subVersion": 1}
        for broker, queue_id in itertools.product(self.addresses, QUEUES):
            for code in (MAX, MIN, QUERY_OFFSET, EARLIEST):
                self.ask(what, broker, code, queueId=queue_id)
            self.ask(what, broker, SEARCH, queueId=queue_id, timestamp=0)
            self.ask(what, broker, MAX, queueId=queue_id, lo=False)
            for offset in OFFSETS:
                self.ask(what, broker, PULL, queueId=queue_id, queueOffset=offset, expressionType="TAG", **pull)
            self.ask(what, broker, PULL, queueId=queue_id, queueOffset=0, expressionType="TAG", lo=False, **pull)
        for broker in self.addresses:
            self.ask(what, broker, SEND, b"led elsewhere", **sending(2))

    def run(self) -> None:
        subscription = {"topic": TOPIC, "subString": "*", "subVersion": 1, "expressionType": "TAG"}
        consumer = {
            "groupName": GROUP,
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
            "subscriptionDataSet": [subscription],
        }
        ours(self.cluster.address, "updateStaticTopic", "-t", TOPIC, "-b", "broker-a", "-qn", "2")
        for broker in self.addresses:
            self.ask("", broker, HEARTBEAT, json.dumps({"clientID": "c", "consumerDataSet": [consumer], "producerDataSet": []}).encode())
        for number, queue_id in itertools.product(range(3), (0, 1)):
            self.ask(f"first {number}", "broker-a", SEND, b"m", **sending(queue_id))
        for queue_id in (0, 1):
            self.await_end("broker-a", queue_id, 3)
        self.await_knowing("broker-a", EARLIEST)
        self.ask_everything("made")
        self.ask("made", "broker-a", UPDATE_OFFSET, queueId=0, commitOffset=2)
        self.ask("committed", "broker-a", QUERY_OFFSET, queueId=0)
        ours(self.cluster.address, "remappingStaticTopic", "-t", TOPIC, "-b", "broker-b")
        self.await_knowing("broker-b", MIN)
        self.ask_everything("moved")
        for number, broker in itertools.product(range(2), self.addresses):
            self.ask(f"second {number}", broker, SEND, b"n", **sending(0))
        self.await_end("broker-b", 0, 10_002)
        self.ask_everything("written")
        for broker, offset in itertools.product(("broker-b", "broker-a"), (10_001, 1)):
            self.ask("moved", broker, UPDATE_OFFSET, queueId=0, commitOffset=offset)
            self.ask(f"committed {offset}", broker, QUERY_OFFSET, queueId=0)


def test_answers_are_rocketmqs(new_cluster: Callable[..., Cluster], product: Product, peer: Product) -> None:
    sides = [Side(new_cluster(namesrv=each, brokers=[each, each])) for each in (product, peer)]
    for side in sides:
        side.run()
    our, their = (side.answers for side in sides)
    assert our.keys() == their.keys() and len(our) > 400
    assert {asked: (our[asked], their[asked]) for asked in our if our[asked] != their[asked]} == {}

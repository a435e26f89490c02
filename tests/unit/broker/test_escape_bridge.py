"""The bridge to another master, with a native side that the test plays."""

from __future__ import annotations

import asyncio
import os
from types import SimpleNamespace
from typing import Any, cast

from rocketpy._core.errors import NetworkError
from rocketpy._core.results import Message
from rocketpy.broker import names
from rocketpy.broker.escape_bridge import IN_FLIGHT, PASSED_ON, STUCK, WAITS, EscapeBridge
from rocketpy.broker.parts import Parts
from rocketpy.remoting.codes import RequestCode, ResponseCode
from rocketpy.remoting.json_codec import write_json
from tests.processes import PATIENCE_S

from .test_escaped_checkpoints import record


class Native:
    """One message at a time."""

    def __init__(self) -> None:
        self.escape_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.offered: list[tuple[int, bytes]] = []
        self.settled: list[tuple[int, int]] = []

    def offer(self, number: int) -> None:
        self.offered.append((number, b"a record"))
        os.eventfd_write(self.escape_fd, 1)

    def take_escaping(self) -> tuple[int, bytes] | None:
        return self.offered.pop() if self.offered else None

    def settle_escaping(self, id: int, status: int) -> None:
        self.settled.append((id, status))


def test_what_is_taken_in_the_turn_of_a_stop_keeps_no_place() -> None:
    async def run() -> None:
        native = Native()
        identity = SimpleNamespace(broker_name="b", broker_id=1)
        bridge = EscapeBridge(cast(Parts, cast(Any, SimpleNamespace(native=native, registration=SimpleNamespace(identity=identity)))))
        for number in range(IN_FLIGHT + 1):
            bridge.start()
            native.offer(number)
            async with asyncio.timeout(PATIENCE_S):
                while native.offered:  # noqa: ASYNC110 - it is stopped in the very turn
                    await asyncio.sleep(0)
            await bridge.stop()
        assert native.settled == [(number, WAITS) for number in range(IN_FLIGHT + 1)]
        os.close(native.escape_fd)

    asyncio.run(run())


class Others:
    """Other masters, which have the topics and any group; what they were sent."""

    def __init__(self, *brokers: str) -> None:
        self.brokers, self.sent, self.silent = list(brokers), list[str](), set[str]()
        self.strangers = set[str]()

    async def invoke(self, address: str, code: int, *_: object, **__: object) -> Any:
        if address in self.silent:
            raise NetworkError("no answer")
        if code == RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG and address in self.strangers:
            return SimpleNamespace(code=ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
        if code == RequestCode.SEND_MESSAGE:
            self.sent.append(address)
        queues = [{"brokerName": name, "readQueueNums": 4, "writeQueueNums": 4, "perm": 6, "topicSysFlag": 0} for name in self.brokers]
        brokers = [{"cluster": "c", "brokerName": name, "brokerAddrs": {"0": f"{name}:1"}} for name in self.brokers]
        route = write_json({"queueDatas": queues, "brokerDatas": brokers, "filterServerTable": {}})
        return SimpleNamespace(code=0, body=route, fields={"msgId": "1"}, remark=None)


def test_an_ack_is_sent_where_its_checkpoint_went_or_nowhere() -> None:
    """Though a checkpoint that came now would go to another one."""

    async def run() -> None:
        others = Others("m")
        registration = SimpleNamespace(identity=SimpleNamespace(broker_name="own", broker_id=1), name_servers=["names:1"])
        parts = SimpleNamespace(native=None, registration=registration, client=others)
        bridge, now = EscapeBridge(cast(Parts, cast(Any, parts)), clock_ms=lambda: now[0]), [0]
        assert await bridge._put_of_pop(record("ck", 1)) == PASSED_ON
        others.brokers, now[0] = [f"{letter}" for letter in "abcdefghm"], 10_000
        for start in range(2, 6):
            assert await bridge._put_of_pop(record("ck", start)) == PASSED_ON
        assert "m:1" not in others.sent[1:], "for this test the others come first"
        assert await bridge._put_of_pop(record("ack", 1)) == PASSED_ON and others.sent[-1] == "m:1"
        others.silent.add("m:1")
        count = len(others.sent)
        assert [await bridge._put_of_pop(record("ack", 1)) for _ in range(2)] == [WAITS, WAITS] and len(others.sent) == count
        others.brokers.remove("m")
        now[0] += 10_000
        assert await bridge._put_of_pop(record("ack", 1)) == WAITS and len(others.sent) == count, "it has left the route"
        others.strangers, now[0] = {f"{name}:1" for name in others.brokers if name != "h"}, now[0] + 100_000
        for start in range(50, 58):
            assert await bridge._put_of_pop(record("ack", start)) == PASSED_ON and others.sent[-1] == "h:1", "others lack the group"
        assert await bridge._put_of_pop(record("ck")._replace(body=b"{}", topic=names.REVIVE_TOPIC_PREFIX)) == STUCK

    asyncio.run(run())


class OthersWithout(Others):
    """As Others, with these topics only; the topic and the queue that each message was sent to."""

    def __init__(self, *topics: str) -> None:
        super().__init__("m")
        self.topics, self.queues = set(topics), list[tuple[str, int]]()

    async def invoke(self, address: str, code: int, header: Any, *rest: object, **__: object) -> Any:
        if code == RequestCode.GET_ROUTEINFO_BY_TOPIC and header.topic not in self.topics:
            return SimpleNamespace(code=ResponseCode.TOPIC_NOT_EXIST)
        if code == RequestCode.SEND_MESSAGE:
            self.queues.append((header.topic, header.queue_id))
        return await super().invoke(address, code, header, *rest)


def test_a_retry_topic_that_is_yet_to_be_made_has_a_first_queue_and_no_other_for_sure() -> None:
    async def run() -> None:
        others = OthersWithout("t", "TBW102")
        registration = SimpleNamespace(identity=SimpleNamespace(broker_name="own", broker_id=1), name_servers=["names:1"])
        parts = SimpleNamespace(native=None, registration=registration, client=others, groups={"g"}, topics={"t"})
        bridge, now = EscapeBridge(cast(Parts, cast(Any, parts)), clock_ms=lambda: now[0]), [0]
        of_retry = Message("%RETRY%g_t", 3, 0, 0, 0, 7, 0, 0, 11, "127.0.0.1:1", 0, "127.0.0.1:2", 2, 0, {}, b"body")
        assert await bridge.put(of_retry) == PASSED_ON
        assert await bridge.put(of_retry._replace(topic="u")) == PASSED_ON, "made as TBW102 says"
        others.topics.add("%RETRY%g_t")
        now[0] = 10_000
        assert await bridge.put(of_retry) == PASSED_ON
        assert others.queues == [("%RETRY%g_t", 0), ("u", 3), ("%RETRY%g_t", 3)]

    asyncio.run(run())

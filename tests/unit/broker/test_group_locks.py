"""Queue locks of a master and its slave with lockInStrictMode: both must agree, whoever is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rocketpy._core.errors import NetworkError, RocketpyError
from rocketpy._core.remoting import Command, decode_command, encode_command
from rocketpy.broker.group_locks import LockRequest, lock_by_majority
from rocketpy.broker.rebalance_locks import MessageQueue
from rocketpy.remoting.codes import RequestCode

from .pair import pair
from .running import Peer, run

STRICT = {"lockInStrictMode": "true", "totalReplicas": "2"}
QUEUES = [{"topic": "t", "brokerName": "broker-a", "queueId": queue} for queue in (0, 1)]


def body(client: str, **members: Any) -> bytes:
    return json.dumps({"consumerGroup": "g", "clientId": client, "mqSet": QUEUES, **members}).encode()


async def locked(at: Peer, client: str, **members: Any) -> list[int]:
    answer = await at.ask(RequestCode.LOCK_BATCH_MQ, {}, body(client, **members))
    assert answer.code == 0
    return sorted(queue["queueId"] for queue in json.loads(answer.body)["lockOKMQSet"])


def test_master_and_slave_lock_a_queue_for_the_same_client(tmp_path: Path) -> None:
    async def test() -> None:
        async with pair(tmp_path, master=STRICT, slave=STRICT) as both:
            assert await locked(both.master, "one") == [0, 1]
            assert await locked(both.slave, "two") == [], "of two, the slave alone would be no majority, and it has agreed to another"
            assert await locked(both.slave, "one", onlyThisBroker=True) == [0, 1]
            assert (await both.master.ask(RequestCode.UNLOCK_BATCH_MQ, {}, body("one"))).code == 0
            assert await locked(both.slave, "two") == [0, 1], "unlocked at both"
            assert await locked(both.master, "one") == []

    run(test)


def test_without_a_majority_nobody_holds_a_queue(tmp_path: Path) -> None:
    async def test() -> None:
        async with pair(tmp_path, master=STRICT, slave=STRICT) as both:
            await both.slave_service.stop()
            assert await locked(both.master, "one") == []
            assert await locked(both.master, "one", onlyThisBroker=True) == [0, 1], "what another member asks for is ours alone"
            assert (await both.master.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, b"lockInStrictMode=false\n")).code == 0
            assert await locked(both.master, "one") == [0, 1]

    run(test)


class Group:
    """Members whose answers are known."""

    def __init__(self, *answers: Command | RocketpyError) -> None:
        self.answers = answers

    async def invoke_all(self, addresses: Any, code: int, fields: Any = None, body: bytes = b"", *, timeout_s: float = 0) -> Any:
        assert code == RequestCode.LOCK_BATCH_MQ and json.loads(body)["onlyThisBroker"] is True
        return dict(zip(addresses, self.answers, strict=True))


def answer(text: bytes, code: int = 0) -> Command:
    return decode_command(encode_command(code, None, text))


@pytest.mark.parametrize("other", [NetworkError("gone"), answer(b"", 1), answer(b""), answer(b"[]"), answer(b'{"lockOKMQSet":[1]}')])
def test_a_member_that_does_not_agree_in_words_has_not(other: Any) -> None:
    async def test() -> None:
        queues = [MessageQueue("t", "b", 0), MessageQueue("t", "b", 1)]
        request = LockRequest("g", "one", queues, only_this_broker=False)
        agrees = answer(b'{"lockOKMQSet":[{"brokerName":"b","queueId":1,"topic":"t"},{"brokerName":"b","queueId":7,"topic":"t"}]}')
        assert await lock_by_majority(Group(agrees, other), ["1", "2"], request, queues, 2) == queues[1:]
        assert await lock_by_majority(Group(agrees, other), ["1", "2"], request, queues, 3) == []

    run(test)

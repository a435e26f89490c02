"""A slave that stands in for its master (enableRemoteEscape) is killed again and again meanwhile: what its master acknowledged comes by the
other master, and what that refuses comes when the master is back."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from rocketpy._core.errors import RocketpyError
from rocketpy._core.remoting import Command, encode_command
from rocketpy._core.store import decode_message
from rocketpy.remoting.codes import RequestCode
from tests.fault.requests_wire import Wire
from tests.processes import wait_until

from .broker_process import BrokerProcess, NameServerProcess

TOPIC, HALF_TOPIC, QUEUES = "CrashTest", "RMQ_SYS_TRANS_HALF_TOPIC", 4
EACH = 20
SETTINGS: dict[str, object] = {
    "enableSlaveActingMaster": True,
    "enableRemoteEscape": True,
    "slaveReadEnable": True,
    "brokerHeartbeatInterval": 300,
    "brokerNotActiveTimeoutMillis": 2000,
    "syncBrokerMemberGroupPeriod": 500,
    "timerWheelEnable": True,
    "timerPrecisionMs": 100,
    "messageDelayLevel": "8s",
    "flushDelayOffsetInterval": 200,
    "flushConsumerOffsetInterval": 200,
}
KINDS = {"delayed": "DELAY\x011\x02", "timed": "TIMER_DELAY_MS\x018000\x02", "prepared": "TRAN_MSG\x01true\x02PGROUP\x01P\x02"}
REFUSED = bytes(2000)
"""More than the other master takes."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@dataclass
class Three:
    names: NameServerProcess
    master: BrokerProcess
    slave: BrokerProcess
    other: BrokerProcess


@contextmanager
def running(home: Path) -> Iterator[Three]:
    names = NameServerProcess(home / "names", supportActingMaster=True)
    settings = {**SETTINGS, "namesrvAddr": names.address}
    three = Three(
        names,
        BrokerProcess(home / "master", brokerRole="SYNC_MASTER", **settings),
        BrokerProcess(home / "slave", brokerRole="SLAVE", brokerId=1, **settings),
        BrokerProcess(home / "other", brokerName="other", maxMessageSize=1000, **settings),
    )
    servers = (three.names, three.master, three.other, three.slave)
    try:
        for server in servers:
            server.start()
        yield three
    finally:
        for server in reversed(servers):
            server.stop()


def ask(broker: BrokerProcess, code: int, fields: dict[str, str], body: bytes = b"") -> Command:
    with Wire(broker.port) as wire:
        wire.write(encode_command(code, fields, body, opaque=1))
        answer = wire.read()
    assert answer is not None, "the broker closed the connection"
    return answer


def send(broker: BrokerProcess, body: bytes, properties: str = "", queue: int = 0) -> Command:
    fields = {
        "a": "P", "b": TOPIC, "c": "TBW102", "d": str(QUEUES), "e": str(queue), "f": "4" if "TRAN_MSG" in properties else "0",
        "g": str(time.time_ns() // 1_000_000), "h": "0", "i": properties, "j": "0", "k": "false", "m": "false",
    }  # fmt: skip
    return ask(broker, RequestCode.SEND_MESSAGE_V2, fields, body)


def bodies(broker: BrokerProcess, topic: str, queue: int) -> set[bytes]:
    found, offset = set(), "0"
    while True:
        fields = {
            "consumerGroup": "CID_RMQ_SYS_crash", "topic": topic, "queueId": str(queue), "queueOffset": offset, "maxMsgNums": "32",
            "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0",
            "expressionType": "TAG",
        }  # fmt: skip
        answer = ask(broker, RequestCode.PULL_MESSAGE, fields)
        if answer.code != 0:
            return found
        at = 0
        while at < len(answer.body):
            message = decode_message(answer.body[at:])
            found.add(message.body)
            at += message.size
        offset = answer.fields["nextBeginOffset"]


def all_bodies(broker: BrokerProcess) -> set[bytes]:
    queues = [(TOPIC, queue) for queue in range(QUEUES)] + [(HALF_TOPIC, 0)]
    return set().union(*(bodies(broker, *queue) for queue in queues))


def await_passed_on(three: Three, wanted: set[bytes], count: int) -> None:
    what = f"{count} of {len(wanted)} messages that the slave has passed on"
    three.slave.process.wait_until(lambda: len(wanted & all_bodies(three.other)) >= count, 120, what)


def test_what_a_slave_passes_on_survives_its_sigkill(tmp_path: Path, rounds: int, dice: random.Random) -> None:
    wanted, refused = set[bytes](), set[bytes]()
    with running(tmp_path) as three:
        assert send(three.other, b"there is one").code == 0
        wait_until(lambda: send(three.master, b"a slave has it").code == 0, what="a slave in sync", not_yet=(RocketpyError, OSError))
        for number in range(EACH):
            for kind, properties in KINDS.items():
                body = f"{kind} {number}".encode()
                assert send(three.master, body, properties, number % QUEUES).code == 0
                wanted.add(body)
                if number % 5 == 1:
                    assert send(three.master, body + REFUSED, properties, number % QUEUES).code == 0
                    refused.add(body + REFUSED)
        three.slave.process.wait_until(lambda: knows(three.slave), 60, "the topic at the slave")
        three.master.kill()
        for count in sorted(dice.choices(range(len(wanted) + 1), k=1 + rounds // 4)):
            await_passed_on(three, wanted, count)
            three.slave.kill()
            three.slave.start()
        await_passed_on(three, wanted, len(wanted))
        assert not refused & bodies(three.other, TOPIC, 0)
        three.master.start()
        wait_until(lambda: refused <= all_bodies(three.master), 120, "what that refused comes by its master", every=0.5)
        for broker in (three.slave, three.other, three.master):
            broker.stop()
            broker.check_store()


def knows(broker: BrokerProcess) -> bool:
    return TOPIC.encode() in ask(broker, RequestCode.GET_ALL_TOPIC_CONFIG, {}).body

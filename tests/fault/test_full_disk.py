"""A disk that is full: sends are refused in RocketMQ's words, readers go on, nothing acknowledged is lost, and space brings sends back.

A tmpfs of its own, so these need root and mount(8).
"""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketpy._core.remoting import Command, encode_command
from rocketpy._core.store import Message, decode_message
from rocketpy.remoting.codes import RequestCode, ResponseCode
from tests.crash.broker_process import SMALL_FILES, BrokerProcess
from tests.processes import wait_until
from tests.unit.cli.processes import run

from .requests_wire import Wire
from .test_bad_input import PULL, SEND

TOPIC = "FullDisk"
BODY_SIZE = 32_000
SENDS_MAX = 4000  # more than 64 MB hold
LOG_FILE_SIZE = SMALL_FILES["mappedFileSizeCommitLog"]


@pytest.fixture
def disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """64 MB, or as many KiB as the test is parametrized with."""
    size = f"size={getattr(request, 'param', 64 << 10)}k"
    directory = tmp_path / "disk"
    directory.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", size, "none", str(directory)], capture_output=True, text=True, check=False)
    if mount.returncode != 0:
        pytest.skip(f"cannot mount a small tmpfs: {mount.stderr.strip()}")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)


@pytest.fixture
def broker(disk: Path, tmp_path: Path) -> Iterator[BrokerProcess]:
    """Its retention, which deletes the oldest files of a disk that fills and refuses sends before it is full, does not look at this one."""
    process = BrokerProcess(tmp_path / "broker", storePathRootDir=disk / "store", cleanResourceInterval=3_600_000, **SMALL_FILES)
    process.start()
    try:
        yield process
    finally:
        process.stop()


def send(wire: Wire, number: int, size: int = BODY_SIZE) -> Command:
    wire.write(encode_command(310, {**SEND, "b": TOPIC}, b"%08d" % number + bytes(size), opaque=number))
    answer = wire.read()
    assert answer is not None, "the broker closed the connection"
    return answer


def fill(broker: BrokerProcess) -> list[int]:
    """Sends until one is refused; the numbers that were acknowledged."""
    acknowledged = []
    with Wire(broker.port) as wire:
        for number in range(SENDS_MAX):
            answer = send(wire, number)
            if answer.code != ResponseCode.SUCCESS:
                assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE, f"{answer.code}: {answer.remark}"
                assert "disk is full" in (answer.remark or "")
                assert acknowledged, "the disk was full before the first send"
                return acknowledged
            acknowledged.append(number)
    raise AssertionError("64 MB took more than they can")


def read_all(broker: BrokerProcess, queue: int = 0) -> list[int]:
    """The numbers in the queue, in order, by a group nobody has heard of."""
    found = []
    with Wire(broker.port) as wire:
        offset = 0
        while True:
            fields = {**PULL, "consumerGroup": "full-disk", "topic": TOPIC, "queueId": str(queue), "queueOffset": str(offset)}
            wire.write(encode_command(11, fields, opaque=1))
            answer = wire.read()
            assert answer is not None, "the broker closed the connection"
            if answer.code != ResponseCode.SUCCESS:
                assert answer.code == ResponseCode.PULL_NOT_FOUND, f"{answer.code}: {answer.remark}"
                return found
            at = 0
            while at < len(answer.body):
                found.append(int(answer.body[at + 88 : at + 96]))
                at += struct.unpack_from(">I", answer.body, at)[0]
            offset = int(answer.fields["nextBeginOffset"])


def use_up(disk: Path) -> Path:
    """Takes what is left, once more if it took some before: a request of the broker for more space than there is gives back what it got."""
    path = disk / "ballast"
    with path.open("ab", buffering=0) as ballast:
        try:
            while ballast.write(bytes(4096)):
                pass
        except OSError:
            return path
    raise AssertionError("the disk has no end")


def works_again(broker: BrokerProcess) -> bool:
    with Wire(broker.port) as wire:
        return send(wire, 9_999).code == ResponseCode.SUCCESS


def test_sends_are_refused_readers_go_on_and_space_brings_sends_back(disk: Path, broker: BrokerProcess) -> None:
    pid = broker.pid
    acknowledged = fill(broker)
    ballast = use_up(disk)
    assert read_all(broker) == acknowledged
    ballast.unlink()
    subprocess.run(["mount", "-o", "remount,size=128m", str(disk)], check=True)
    wait_until(lambda: works_again(broker), 10, "sends after there is space again")
    assert broker.pid == pid
    broker.stop()
    broker.start()
    assert read_all(broker)[: len(acknowledged)] == acknowledged


def test_a_broker_killed_on_a_full_disk_has_everything_when_it_starts_with_space(disk: Path, broker: BrokerProcess) -> None:
    acknowledged = fill(broker)
    ballast = use_up(disk)
    broker.kill()
    ballast.unlink()
    subprocess.run(["mount", "-o", "remount,size=128m", str(disk)], check=True)
    broker.start()
    assert read_all(broker) == acknowledged
    assert works_again(broker)


@pytest.mark.parametrize("disk", [64 << 10, 64_900, 64_200], indirect=True)  # queues end in another place of their last file
def test_a_broker_killed_on_a_full_disk_starts_and_serves_readers_while_it_is_still_full(disk: Path, broker: BrokerProcess) -> None:
    acknowledged = fill(broker)
    use_up(disk)
    broker.kill()
    broker.start()
    assert read_all(broker) == acknowledged


def take_what_comes(over: threading.Event, disk: Path) -> None:
    """As another program does, or a file system that has other plans for blocks it got back."""
    with (disk / "others").open("wb", buffering=0) as others:
        while not over.is_set():
            try:
                others.write(bytes(4096))
            except OSError:
                over.wait(0.0001)


@pytest.mark.parametrize("killed_after", [100, 1100])  # in the first file of the queue, and in its second
def test_a_start_gives_back_no_space_that_it_needs_again(disk: Path, broker: BrokerProcess, killed_after: int) -> None:
    """What the queues held when it was killed: all of it is built again, as the first checkpoint is not written yet."""
    with Wire(broker.port) as wire:
        assert {send(wire, number, 100).code for number in range(killed_after)} == {ResponseCode.SUCCESS}
    broker.kill()
    use_up(disk)
    over = threading.Event()
    taker = threading.Thread(target=take_what_comes, args=(over, disk))
    taker.start()
    try:
        broker.start()
        assert read_all(broker) == list(range(killed_after))
    finally:
        over.set()
        taker.join()


def test_the_store_of_a_broker_killed_on_a_full_disk_is_verified_there(disk: Path, broker: BrokerProcess) -> None:
    """The file that was made and got no space is a hole, as queues are behind their ends: on tmpfs whoever looks into one needs space."""
    acknowledged = fill(broker)
    broker.kill()
    use_up(disk)
    log = disk / "store" / "commitlog"
    with (log / f"{int(max(log.iterdir()).name) + LOG_FILE_SIZE:020}").open("wb") as without_space:
        without_space.truncate(LOG_FILE_SIZE)
    verified = run("store", "verify", str(disk / "store"), "--slot-count", "1000", "--entry-count", "4000")
    assert verified.returncode == 0, f"{verified.returncode}: {verified.stdout}{verified.stderr}"
    assert f"{len(acknowledged)} entries of 1 queues" in verified.stdout


def test_a_broker_stopped_on_a_full_disk_starts_and_serves_readers_while_it_is_still_full(disk: Path, broker: BrokerProcess) -> None:
    acknowledged = fill(broker)
    broker.stop()
    use_up(disk)
    broker.start()
    assert read_all(broker) == acknowledged


def test_a_start_that_finds_no_space_for_queues_that_are_lost_says_how_much_it_needs_where(disk: Path, broker: BrokerProcess) -> None:
    acknowledged = fill(broker)
    checkpoint = disk / "store" / "checkpoint"
    wait_until(lambda: int.from_bytes(checkpoint.read_bytes()[40:48]) > 0, what="entries that the checkpoint calls synced")
    broker.kill()
    shutil.rmtree(disk / "store" / "consumequeue")
    ballast = use_up(disk)
    refused = run("broker", "-c", str(broker.config))
    file = disk / "store" / "consumequeue" / TOPIC / "0" / f"{0:020}"
    needs = r"no space for \d+ bytes of queue entries: No space left on device; free disk space or add a disk, then start again"
    assert refused.returncode == 1, refused.stderr
    assert re.search(rf"{needs} \[{re.escape(str(file))} at 0\]$", refused.stderr, re.MULTILINE), refused.stderr
    ballast.unlink()
    broker.start()
    assert read_all(broker) == acknowledged


@pytest.mark.parametrize("disk", [64], indirect=True)
def test_a_first_start_on_a_full_disk_says_what_helps_and_does_not_begin_a_store(disk: Path, tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "broker", storePathRootDir=disk / "store", **SMALL_FILES)
    ballast = use_up(disk)
    refused = run("broker", "-c", str(broker.config))
    assert refused.returncode == 1 and "No space left on device" in refused.stderr, refused.stderr
    assert f"free disk space where {disk / 'store'}" in refused.stderr
    ballast.unlink()
    subprocess.run(["mount", "-o", "remount,size=128m", str(disk)], check=True)
    broker.start()
    try:
        assert works_again(broker)
    finally:
        broker.stop()


TABLES = {
    "topic": (
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        {
            "topic": "Made", "defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "4", "perm": "6",
            "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
        },
        b"",
        "topics.json",
    ),
    "group": (RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, b'{"groupName":"Made","consumeEnable":true}', "subscriptionGroup.json"),
    "request mode": (
        RequestCode.SET_MESSAGE_REQUEST_MODE,
        {},
        b'{"topic":"Made","consumerGroup":"Made","mode":"PULL","popShareQueueNum":1}',
        "messageRequestMode.json",
    ),
}  # fmt: skip


def change(broker: BrokerProcess, table: str) -> Command:
    code, fields, body, _ = TABLES[table]
    with Wire(broker.port) as wire:
        wire.write(encode_command(code, fields, body, opaque=1))
        answer = wire.read()
    assert answer is not None, "the broker closed the connection"
    return answer


def has_its_lead(disk: Path) -> bool:
    """Both files that an idle broker prepares have their space. Before that a request for space that fails may give some back."""
    return sum(path.stat().st_blocks * 512 for path in (disk / "store" / "commitlog").iterdir()) >= 2 * LOG_FILE_SIZE


def test_a_change_whose_file_cannot_be_written_is_an_error_until_it_is_written(disk: Path, broker: BrokerProcess) -> None:
    wait_until(lambda: has_its_lead(disk), 60, "space for two files of the commit log")
    ballast = use_up(disk)
    for _ in range(2):  # the second finds nothing to change, but it is not on disk either
        for table, (_, _, _, name) in TABLES.items():
            answer = change(broker, table)
            assert answer.code == ResponseCode.SYSTEM_ERROR, f"{table}: {answer.code} {answer.remark}"
            assert name in (answer.remark or "") and "No space left on device" in (answer.remark or "")
    ballast.unlink()
    for table in TABLES:
        assert change(broker, table).code == ResponseCode.SUCCESS, table
    broker.kill()
    for *_, name in TABLES.values():
        assert "Made" in (disk / "store" / "config" / name).read_text()
    broker.start()


# ---- lite topics ----

PARENT, READERS, LITE_TOPICS = "LiteParent", "LiteReaders", 8
NEW = [f"new{number}" for number in range(100)]
LITE = {"enableLmq": True, "enableMultiDispatch": True}


def ask(wire: Wire, code: int, fields: dict[str, str], body: object = None) -> Command:
    wire.write(encode_command(code, fields, json.dumps(body).encode() if body is not None else b"", opaque=1))
    answer = wire.read()
    assert answer is not None, "the broker closed the connection"
    return answer


def send_lite(wire: Wire, lite: str, number: int) -> Command:
    fields = {**SEND, "b": PARENT, "e": "0", "i": f"__LITE_TOPIC\x01{lite}\x02"}
    wire.write(encode_command(310, fields, b"%08d" % number + bytes(BODY_SIZE), opaque=number))
    answer = wire.read()
    assert answer is not None, "the broker closed the connection"
    return answer


def make_lite(wire: Wire) -> None:
    topic = {
        "topic": PARENT, "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6",
        "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false", "attributes": "+message.type=LITE",
    }  # fmt: skip
    assert ask(wire, RequestCode.UPDATE_AND_CREATE_TOPIC, topic).code == ResponseCode.SUCCESS
    group = {"groupName": READERS, "attributes": {"+lite.bind.topic": PARENT}}
    assert ask(wire, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, group).code == ResponseCode.SUCCESS


def fill_lite(broker: BrokerProcess) -> dict[str, list[int]]:
    """The numbers that were acknowledged, by lite topic."""
    acknowledged: dict[str, list[int]] = defaultdict(list)
    with Wire(broker.port) as wire:
        for number in range(SENDS_MAX):
            lite = str(number % LITE_TOPICS)
            answer = send_lite(wire, lite, number)
            if answer.code != ResponseCode.SUCCESS:
                assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE and "disk is full" in (answer.remark or ""), answer.remark
                return acknowledged
            acknowledged[lite].append(number)
    raise AssertionError("64 MB took more than they can")


def pop(wire: Wire) -> list[tuple[Message, Command]]:
    fields = {
        "clientId": "c", "consumerGroup": READERS, "topic": PARENT, "maxMsgNum": "32", "invisibleTime": "60000", "pollTime": "0",
        "bornTime": "1",
    }  # fmt: skip
    answer = ask(wire, RequestCode.POP_LITE_MESSAGE, fields)
    assert answer.code in (ResponseCode.SUCCESS, ResponseCode.POLLING_TIMEOUT), f"{answer.code}: {answer.remark}"
    found, at = [], 0
    while at < len(answer.body):
        found.append((decode_message(answer.body[at:]), answer))
        at += found[-1][0].size
    return found


def consume_lite(broker: BrokerProcess, most: int) -> dict[str, list[int]]:
    """All numbers that are popped, and acked, up to so many."""
    found: dict[str, list[int]] = defaultdict(list)
    lites = [*map(str, range(LITE_TOPICS)), *NEW]
    entry = {"action": "COMPLETE_ADD", "clientId": "c", "group": READERS, "topic": PARENT, "liteTopicSet": lites}
    with Wire(broker.port) as wire:
        assert ask(wire, RequestCode.LITE_SUBSCRIPTION_CTL, {}, {"subscriptionSet": [entry]}).code == ResponseCode.SUCCESS
        while sum(map(len, found.values())) < most and (popped := pop(wire)):
            for message, answer in popped:
                lite, offset = message.properties["__LITE_TOPIC"], message.properties["INNER_MULTI_QUEUE_OFFSET"]
                pop_ms, invisible_ms, revive = (answer.fields[name] for name in ("popTime", "invisibleTime", "reviveQid"))
                fields = {
                    "consumerGroup": READERS, "topic": PARENT, "queueId": "0", "offset": offset, "liteTopic": lite,
                    "extraInfo": f"0 {pop_ms} {invisible_ms} {revive} 0 broker-a 0 {offset}", "invisibleTime": "60000",
                }  # fmt: skip
                acked = ask(wire, RequestCode.ACK_MESSAGE, fields)
                assert acked.code == ResponseCode.SUCCESS, f"{acked.code}: {acked.remark}"
                found[lite].append(int(message.body[:8]))
    return found


@pytest.fixture
def lite_broker(disk: Path, tmp_path: Path) -> Iterator[BrokerProcess]:
    settings = {**SMALL_FILES, **LITE, "cleanResourceInterval": 3_600_000}
    process = BrokerProcess(tmp_path / "broker", storePathRootDir=disk / "store", **settings)
    process.start()
    try:
        with Wire(process.port) as wire:
            make_lite(wire)
        yield process
    finally:
        process.stop()


def test_lite_topics_are_consumed_on_a_full_disk_and_new_ones_wait_for_space(disk: Path, lite_broker: BrokerProcess) -> None:
    broker = lite_broker
    acknowledged = fill_lite(broker)
    with Wire(broker.port) as wire:
        for new in NEW:
            ballast = use_up(disk)
            refused = send_lite(wire, new, 1)
            if refused.code != ResponseCode.SUCCESS:
                break
            acknowledged[new].append(1)  # the broker gave space back behind us, and got it again
    assert refused.code in (ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.SYSTEM_ERROR), f"{refused.code}: {refused.remark}"
    assert consume_lite(broker, SENDS_MAX) == acknowledged, "each lite topic in order, once, and nothing that was refused"
    ballast.unlink()
    subprocess.run(["mount", "-o", "remount,size=128m", str(disk)], check=True)

    def takes_new() -> bool:
        with Wire(broker.port) as wire:
            return send_lite(wire, new, 9_999).code == ResponseCode.SUCCESS

    wait_until(takes_new, 60, "sends after there is space again")
    assert consume_lite(broker, SENDS_MAX) == {new: [9_999]}
    broker.stop()
    broker.start()
    assert consume_lite(broker, SENDS_MAX) == {}, "its offsets are on disk"


@pytest.mark.parametrize("disk", [64 << 10, 64_900, 64_200], indirect=True)  # queues end in another place of their last file
def test_lite_topics_of_a_broker_killed_on_a_full_disk_are_whole(disk: Path, lite_broker: BrokerProcess) -> None:
    broker = lite_broker
    acknowledged = fill_lite(broker)
    use_up(disk)
    consumed = consume_lite(broker, 100)
    broker.kill()
    broker.start()
    again = consume_lite(broker, SENDS_MAX)
    assert again.keys() == acknowledged.keys()
    for lite, numbers in again.items():
        assert numbers == acknowledged[lite][-len(numbers) :], "in order, up to the last"
        assert len(numbers) >= len(acknowledged[lite]) - len(consumed[lite]), "nothing is passed over that was not consumed"

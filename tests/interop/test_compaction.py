"""Topics with cleanup.policy=COMPACTION: the same messages to RocketMQ and to ours, and what is kept of them; stores that change hands,
stopped or killed, and are compacted further by whoever has them."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rocketpy._core.inspect import Damage, verify_store
from tests.processes import PATIENCE_S, wait_until

from . import stored, wire
from .products import Broker, Cluster, Product

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
TOPIC, KEYS = "compacted", 10
PULL, SEND_V2, SEND_BATCH, CREATE_TOPIC, MAX_OFFSET = 11, 310, 320, 17, 30
SUCCESS, MESSAGE_ILLEGAL, RETRY = 0, 13, 20
SETTINGS = {"compactionScheduleInternal": 10_000, "compactionCqMappedFileSize": 46 * 40, "compactionMappedFileSize": 46 * 40 * 5}
"""39 messages a file. What comes while RocketMQ moves its files may be lost there: so all is sent before the first compaction."""


def send(cluster: Cluster, properties: str, body: bytes, code: int = SEND_V2) -> wire.Reply:
    fields = {
        "a": "producers", "b": TOPIC, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000", "h": "0", "i": properties,
        "j": "0", "k": "false", "l": "0", "m": "true" if code == SEND_BATCH else "false", "n": "broker-a",
    }  # fmt: skip
    return wire.call(cluster.broker.address, code, fields, body)


def send_numbers(cluster: Cluster, begin: int, end: int) -> None:
    for number in range(begin, end):
        properties = f"KEYS\x01k{number % KEYS}\x02TAGS\x01T{number % 3}\x02UNIQ_KEY\x01{number:032}\x02"
        assert send(cluster, properties, b"%05d" % number).code == SUCCESS


def create(cluster: Cluster) -> None:
    fields = {
        "topic": TOPIC, "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6", "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0", "order": "false", "attributes": "+cleanup.policy=COMPACTION",
    }  # fmt: skip
    assert wire.call(cluster.broker.address, CREATE_TOPIC, fields).code == SUCCESS
    wait_until(lambda: cluster.route(TOPIC), PATIENCE_S, "the topic is announced")


def kept(cluster: Cluster, broker: Broker | None = None) -> list[stored.Record]:
    """All that a consumer gets that begins at 0."""
    found: list[stored.Record] = []
    address = (broker or cluster.broker).address
    end = int(wire.call(address, MAX_OFFSET, {"topic": TOPIC, "queueId": "0"}).fields.get("offset", 0))
    at = 0
    while at < end:
        fields = {
            "consumerGroup": "readers", "topic": TOPIC, "queueId": "0", "queueOffset": str(at), "maxMsgNums": "32", "sysFlag": "4",
            "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0", "expressionType": "TAG",
        }  # fmt: skip
        reply = wire.call(address, PULL, fields)
        if reply.code not in (SUCCESS, RETRY) or int(reply.fields["nextBeginOffset"]) <= at:
            return []  # its log is being moved, or not there yet
        found += stored.parse(reply.body) if reply.code == SUCCESS else []
        at = int(reply.fields["nextBeginOffset"])
    return found


def numbers(records: list[stored.Record]) -> list[tuple[int, bytes]]:
    return [(each.queue_offset, each.body) for each in records]


def compacted(cluster: Cluster, end: int) -> list[stored.Record]:
    """What is left when there is nothing to compact any more: files full of old messages are gone, the last of each key is there."""

    def is_done() -> list[stored.Record]:
        records = kept(cluster)
        wanted = {b"%05d" % number for number in range(end - KEYS, end)}
        done = wanted <= {each.body for each in records} and len(records) < KEYS + 41
        return records if done else []

    return wait_until(is_done, 3 * PATIENCE_S, "the compaction is over")


def damages_of(broker: Broker) -> list[Damage]:
    """What `rocketpy store verify` says of what either product has kept."""
    found: list[Damage] = []
    counts = verify_store(str(broker.store), on_damage=found.append)
    assert counts["compacted_messages"] > 0
    return [damage for damage in found if damage.kind == "compaction"]


def test_both_keep_the_same_messages(new_cluster: Callable[..., Cluster], product: Product, peer: Product) -> None:
    said: list[dict[str, Any]] = []
    for each in (product, peer):
        cluster = new_cluster(namesrv=product, brokers=[each], **SETTINGS)
        create(cluster)
        refused = send(cluster, "TAGS\x01x\x02", b"no key"), send(cluster, "KEYS\x01  \x02", b"blank")
        send_numbers(cluster, 0, 200)
        records = compacted(cluster, 200)
        said.append(
            {
                "refused": [(reply.code, reply.remark) for reply in refused],
                "kept": numbers(records),
                "records": [record.evened() for record in records],
            }
        )
        cluster.broker.stop()
    assert said[0]["refused"] == said[1]["refused"] == [(MESSAGE_ILLEGAL, "Required message key is missing")] * 2
    assert said[0]["kept"] == said[1]["kept"]
    even = [[record.pairs.keys() - {"CLUSTER"} for record in each["records"]] for each in said]
    assert even[0] == even[1]


@pytest.mark.parametrize("we_begin", [True, False], ids=["ours-to-theirs-and-back", "theirs-to-ours-and-back"])
def test_a_store_changes_hands_and_comes_back(new_cluster: Callable[..., Cluster], product: Product, peer: Product, we_begin: bool) -> None:
    first, second = (product, peer) if we_begin else (peer, product)
    cluster = new_cluster(namesrv=product, brokers=[first], **SETTINGS)
    create(cluster)
    end = 150
    send_numbers(cluster, 0, end)
    records = compacted(cluster, end)
    for owner in (second, first):
        cluster.broker.stop()
        assert damages_of(cluster.broker) == []
        before = numbers(records)
        latest = set(before[-KEYS:])
        cluster.broker.product = owner
        cluster.broker.start(cluster.namesrv)
        wait_until(lambda of=latest: of <= set(numbers(kept(cluster))), PATIENCE_S, "the store is read")  # type: ignore[misc]
        after = numbers(kept(cluster))
        # The other one may have had a file left to compact.
        assert latest <= set(after) <= set(before) and after == sorted(after)
        send_numbers(cluster, end, end + 150)
        end += 150
        records = compacted(cluster, end)
        assert records[-1].queue_offset == end - 1


def test_a_killed_store_of_theirs_is_opened_by_ours(new_cluster: Callable[..., Cluster], product: Product, peer: Product) -> None:
    cluster = new_cluster(namesrv=product, brokers=[peer], **SETTINGS)
    create(cluster)
    send_numbers(cluster, 0, 400)
    cluster.broker.kill()  # among its compactions, perhaps
    cluster.broker.product = product
    cluster.broker.start(cluster.namesrv)
    compacted(cluster, 400)
    send_numbers(cluster, 400, 500)
    compacted(cluster, 500)


@pytest.mark.parametrize("is_ours", [True, False], ids=["our-master", "their-master"])
def test_a_new_slave_of_ours_has_what_its_master_kept(
    new_cluster: Callable[..., Cluster], product: Product, peer: Product, tmp_path: Path, is_ours: bool
) -> None:
    """Its log begins with the last file of the master's, behind most of the messages."""
    settings = {**SETTINGS, "mappedFileSizeCommitLog": 32 << 10, "slaveReadEnable": True}
    cluster = new_cluster(namesrv=product, brokers=[product if is_ours else peer], brokerRole="ASYNC_MASTER", **settings)
    create(cluster)
    send_numbers(cluster, 0, 300)
    records = compacted(cluster, 300)
    slave = Broker(product, tmp_path / "slave", cluster.address, settings, "broker-a", 1).start(cluster.namesrv)
    cluster.brokers.append(slave)
    send_numbers(cluster, 300, 301)
    first = records[0].queue_offset
    wait_until(lambda: numbers(kept(cluster, slave))[:1] == [(first, records[0].body)], 3 * PATIENCE_S, "the slave has what was kept")
    held = dict(numbers(kept(cluster, slave)))
    wanted = {each.body for each in records[-KEYS:]} | {b"00300"}
    wait_until(lambda: wanted <= set(dict(numbers(kept(cluster, slave))).values()), PATIENCE_S, "and what came since")
    assert all(held.get(offset, body) == body for offset, body in numbers(records))


def test_a_message_of_a_batch_needs_a_key_too(new_cluster: Callable[..., Cluster], product: Product) -> None:
    """RocketMQ takes it, and no consumer ever sees it."""

    def inner(properties: bytes, body: bytes = b"b") -> bytes:
        rest = struct.pack(">IIII", 0, 0, 0, len(body)) + body + struct.pack(">H", len(properties)) + properties
        return struct.pack(">I", len(rest) + 4) + rest

    cluster = new_cluster(namesrv=product, brokers=[product], **SETTINGS)
    create(cluster)
    keyed, keyless = inner(b"KEYS\x01a\x02"), inner(b"TAGS\x01a\x02")
    assert send(cluster, "", keyed + keyless, SEND_BATCH).code == MESSAGE_ILLEGAL
    assert send(cluster, "", keyed + keyed, SEND_BATCH).code == SUCCESS
    assert send(cluster, "KEYS\x01a\x02", b"").code == SUCCESS  # deletes what a had
    assert [each.body for each in kept(cluster)] == [b"b", b"b", b""]

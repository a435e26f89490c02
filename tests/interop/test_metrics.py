"""The same traffic to this product and to RocketMQ 5.5.0, and what both then tell Prometheus: the same series by name and labels."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tests.processes import PATIENCE_S, free_port, wait_until

from . import wire
from .products import Cluster, NameServer, Product

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

SEND_V2, PULL, COMMIT_OFFSET, SEND_BACK, END, UPDATE_GROUP, VIEW_STATS = 310, 11, 15, 36, 37, 200, 315
COMMIT, ROLL_BACK = "8", "12"
PUT_BY_DRIVE = 10  # eight sends, a delayed message that is due, one that is committed
TOPIC, GROUP = "measured", "readers"
EVERYWHERE = {"cluster", "node_type", "node_id", "otel_scope_name", "le"}
NOT_OURS = {
    "rocketmq_processor_watermark",  # queues of its thread pools
    "rocketmq_pop_offset_buffer_size",  # of a table of its own, as is the next
    "rocketmq_pop_buffer_scan_time_consume_milliseconds",
    "target_info",  # OpenTelemetry's
}


@dataclass
class Measured:
    """One product with its exporter's port."""

    cluster: Cluster
    port: int

    def ask(self, code: int, fields: dict[str, str], body: bytes = b"") -> wire.Reply:
        reply = wire.call(self.cluster.broker.address, code, fields, body)
        assert reply.code == 0, reply
        return reply

    def send(self, properties: str = "", body: bytes = b"x" * 100, **changes: str) -> wire.Reply:
        fields = {"a": "P", "b": TOPIC, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000", "h": "0", "j": "0", "k": "false"}
        return self.ask(SEND_V2, {**fields, "i": f"UNIQ_KEY\x01{len(properties)}\x02{properties}", **changes}, body)

    def families(self) -> dict[str, Metric]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=PATIENCE_S) as answer:
            return {family.name: family for family in text_string_to_metric_families(answer.read().decode())}

    def samples(self, name: str, **labels: str) -> list[Sample]:
        return [
            sample
            for family in self.families().values()
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]


@pytest.fixture(scope="module")
def sides(product: Product, peer: Product, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Measured, Measured]]:
    made: list[Measured] = []
    try:
        for name, each in (("ours", product), ("theirs", peer)):
            home, port = tmp_path_factory.mktemp(name), free_port()
            made.append(Measured(Cluster(NameServer(each, home / "namesrv").start()), port))
            exporter = {"metricsExporterType": "PROM", "metricsPromExporterPort": port, "metricsPromExporterHost": "127.0.0.1"}
            made[-1].cluster.add_brokers(home, [each], exporter)
            drive(made[-1])
        yield made[0], made[1]
    finally:
        for side in made:
            side.cluster.stop()


def drive(side: Measured) -> None:
    """One of everything that is counted."""
    side.cluster.create_topic(TOPIC)
    group = b'{"groupName":"%s","consumeEnable":true,"retryQueueNums":1,"retryMaxTimes":16,"brokerId":0,"whichBrokerWhenConsumeSlowly":1}'
    side.ask(UPDATE_GROUP, {}, group % GROUP.encode())
    for size in (10, 3000, 2_000_000):
        last = side.send(body=b"x" * size)
    side.send("__SHARDINGKEY\x01k\x02")
    side.send("DELAY\x011\x02")
    side.send("TIMER_DELAY_SEC\x013600\x02")
    for decision in (COMMIT, ROLL_BACK):
        half = side.send("TRAN_MSG\x01true\x02PGROUP\x01P\x02", f="4")
        ids = {"fromTransactionCheck": "false", "msgId": half.fields["msgId"], "transactionId": "t", "topic": TOPIC}
        place = {"tranStateTableOffset": half.fields["queueOffset"], "commitLogOffset": log_offset(half)}
        side.ask(END, {"producerGroup": "P", "commitOrRollback": decision, **place, **ids})
    pull = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0", "queueOffset": "0", "maxMsgNums": "1", "sysFlag": "4"}
    more = {"commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0", "expressionType": "TAG"}
    side.ask(PULL, {**pull, **more})
    side.ask(COMMIT_OFFSET, {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0", "commitOffset": "1"})
    back = {"offset": log_offset(last), "group": GROUP, "delayLevel": "-1", "originMsgId": "", "originTopic": TOPIC, "unitMode": "false"}
    side.ask(SEND_BACK, {**back, "maxReconsumeTimes": "16"})


def log_offset(reply: wire.Reply) -> str:
    return str(int(reply.fields["msgId"][-16:], 16))


def shapes(families: dict[str, Metric]) -> dict[str, tuple[str, set[str]]]:
    """Type and labels of each family with a series."""
    return {
        name: (family.type, {label for sample in family.samples for label in sample.labels} - EVERYWHERE)
        for name, family in families.items()
        if family.samples
    }


def test_every_metric_of_rocketmq_is_here_with_its_labels(sides: tuple[Measured, Measured]) -> None:
    ours, theirs = sides
    expected = {"rocketmq_consumer_lag_latency_milliseconds", "rocketmq_rpc_latency_milliseconds", "rocketmq_send_to_dlq_messages"}
    wait_until(lambda: expected <= shapes(theirs.families()).keys(), 2 * PATIENCE_S, "RocketMQ tells all of them")
    own, wanted = shapes(ours.families()), shapes(theirs.families())
    assert {name: own.get(name) for name in wanted if name not in NOT_OURS} == {
        name: shape for name, shape in wanted.items() if name not in NOT_OURS
    }


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("rocketmq_messages_in_total", {"topic": TOPIC, "message_type": "normal"}),
        ("rocketmq_messages_in_total", {"topic": TOPIC, "message_type": "fifo"}),
        ("rocketmq_messages_in_total", {"topic": TOPIC, "message_type": "delay"}),
        ("rocketmq_messages_in_total", {"topic": "SCHEDULE_TOPIC_XXXX", "message_type": "delay"}),
        ("rocketmq_messages_in_total", {"topic": "RMQ_SYS_TRANS_HALF_TOPIC", "message_type": "transaction"}),
        ("rocketmq_message_size_bucket", {"topic": TOPIC, "message_type": "normal", "le": "4096.0"}),
        ("rocketmq_message_size_count", {"topic": TOPIC, "message_type": "normal"}),
        ("rocketmq_commit_messages_total", {"topic": TOPIC}),
        ("rocketmq_rollback_messages_total", {"topic": TOPIC}),
        ("rocketmq_finish_message_latency_milliseconds_bucket", {"topic": TOPIC, "le": "86400.0"}),
        ("rocketmq_finish_message_latency_milliseconds_count", {"topic": TOPIC}),
        ("rocketmq_half_messages", {"topic": TOPIC}),
        ("rocketmq_delay_message_latency_seconds_count", {"topic": TOPIC}),
        ("rocketmq_send_to_dlq_messages_total", {"consumer_group": GROUP}),
        ("rocketmq_rpc_latency_milliseconds_count", {"request_code": "send_message_v2", "response_code": "success"}),
        ("rocketmq_rpc_latency_milliseconds_count", {"request_code": "pull_message", "response_code": "success"}),
        ("rocketmq_rpc_latency_milliseconds_count", {"request_code": "end_transaction", "response_code": "success"}),
        ("rocketmq_topic_create_execution_time_milliseconds_count", {"invocation_status": "success"}),
        ("rocketmq_consumer_group_create_execution_time_milliseconds_count", {"invocation_status": "success"}),
    ],
)
def test_what_was_counted_is_as_many(sides: tuple[Measured, Measured], name: str, labels: dict[str, str]) -> None:
    """Both count to the same number in the end: a delayed message is delivered a second later."""

    def are_the_same() -> bool:
        seen[:] = ([sample.value for sample in side.samples(name, **labels)] for side in sides)
        return seen[0] == seen[1] != []

    seen: list[list[float]] = []
    try:
        wait_until(are_the_same)
    except AssertionError:
        raise AssertionError(f"{name} {labels}: {seen[0]} here, {seen[1]} at RocketMQ's") from None


OPERATIONS = "RMQ_SYS_TRANS_OP_HALF_TOPIC"


def test_the_whole_broker_has_put_as_many(new_cluster: Callable[..., Cluster], product: Product, peer: Product) -> None:
    """But for the records by which RocketMQ says, of several decisions at once, that their transactions are over. Both tell of the last
    minute; ours, who needs no time to start or to sample, may be past it by then."""
    sides = [Measured(new_cluster(brokers=[each]), 0) for each in (product, peer)]
    for side in sides:
        drive(side)

    def put(side: Measured, name: str, key: str) -> int:
        reply = wire.call(side.cluster.broker.address, VIEW_STATS, {"statsName": name, "statsKey": key})
        return int(reply.json()["statsMinute"]["sum"]) if reply.code == 0 else 0

    def are_the_same() -> bool:
        ours, theirs = (put(side, "BROKER_PUT_NUMS", "DefaultCluster") - put(side, "TOPIC_PUT_NUMS", OPERATIONS) for side in sides)
        seen[:] = max(seen[0], ours), theirs
        return seen == [PUT_BY_DRIVE, PUT_BY_DRIVE]

    seen = [0, 0]
    try:
        wait_until(are_the_same)
    except AssertionError:
        raise AssertionError(f"{seen[0]} here, {seen[1]} at RocketMQ's") from None

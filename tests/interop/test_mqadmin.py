"""RocketMQ 5.5.0's mqadmin against our name server and broker: what an operator types, and what must stand in the columns."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field

import pytest

from tests.processes import wait_until

from . import wire
from .javaenv import JavaClients, Jvm
from .mqadmin import MqAdmin, checked, fields, table
from .products import Cluster

TOPIC, PRODUCERS, CONSUMERS = "admin-topic", "GID-admin-producers", "GID-admin-consumers"


@dataclass
class Stage:
    """A topic with ten consumed messages, a producer and a consumer that stay connected, and read-only commands already under way."""

    cluster: Cluster
    java: JavaClients
    admin: MqAdmin
    sent: list[dict]
    consumer_id: str
    begun: dict[str, Future[str]] = field(default_factory=dict)

    def begin(self, name: str, command: str, *arguments: str) -> None:
        self.begun[name] = self.admin.begin(command, *arguments)

    def printed(self, name: str) -> str:
        return checked(self.begun[name].result(60), name)


def reading_commands(broker: str, message: dict) -> dict[str, list[str]]:
    """Names of commands of mqadmin that change nothing, and their arguments; message is one that was sent to TOPIC."""
    queue, offset = str(message["queueId"]), str(message["queueOffset"])
    return {
        "clusterList": ["clusterList"],
        "clusterList more": ["clusterList", "-m"],
        "topicList": ["topicList"],
        "topicList groups": ["topicList", "-c"],
        "topicRoute": ["topicRoute", "-t", TOPIC],
        "topicRoute list": ["topicRoute", "-t", TOPIC, "-l"],
        "topicStatus": ["topicStatus", "-t", TOPIC],
        "topicClusterList": ["topicClusterList", "-t", TOPIC],
        "brokerStatus": ["brokerStatus", "-b", broker],
        "brokerStatus cluster": ["brokerStatus", "-c", "DefaultCluster"],
        "consumerProgress": ["consumerProgress", "-g", CONSUMERS],
        "consumerProgress clients": ["consumerProgress", "-g", CONSUMERS, "-s", "true"],
        "consumerProgress all": ["consumerProgress"],
        "producerConnection": ["producerConnection", "-g", PRODUCERS, "-t", TOPIC],
        "consumerConnection": ["consumerConnection", "-g", CONSUMERS],
        "producer": ["producer", "-b", broker],
        "getBrokerConfig": ["getBrokerConfig", "-b", broker],
        "getNamesrvConfig": ["getNamesrvConfig"],
        "queryMsgById": ["queryMsgById", "-t", TOPIC, "-i", message["offsetMsgId"]],
        "queryMsgByKey": ["queryMsgByKey", "-t", TOPIC, "-k", "K3"],
        "queryMsgByKey tags": ["queryMsgByKey", "-t", TOPIC, "-k", "T1", "-p", "T"],
        "queryMsgByUniqueKey": ["queryMsgByUniqueKey", "-t", TOPIC, "-i", message["msgId"]],
        "queryMsgByOffset": ["queryMsgByOffset", "-t", TOPIC, "-b", "broker-a", "-i", queue, "-o", offset],
        "printMsg": ["printMsg", "-t", TOPIC],
        "printMsgByQueue": ["printMsgByQueue", "-t", TOPIC, "-a", "broker-a", "-i", "1", "-p", "true"],
        "queryCq": ["queryCq", "-t", TOPIC, "-q", "0", "-i", "0", "-b", broker, "-c", "2"],
        "brokerConsumeStats": ["brokerConsumeStats", "-b", broker],
        "allocateMQ": ["allocateMQ", "-t", TOPIC, "-i", "10.0.0.1,10.0.0.2"],
        "haStatus": ["haStatus", "-b", broker],
    }


@pytest.fixture(scope="module")
def stage(cluster: Cluster, jvm: Callable[..., Jvm]) -> Iterator[Stage]:
    java = JavaClients(jvm(), cluster.address)
    admin = MqAdmin(jvm(), cluster.address)
    printed = admin.run("updateTopic", "-c", "DefaultCluster", "-t", TOPIC, "-r", "4", "-w", "4")
    assert f"create topic to {cluster.broker.address} success" in printed
    wait_until(lambda: cluster.route(TOPIC), 15, "route of the topic mqadmin created")
    producer = java.producer(PRODUCERS)
    sent = producer.send(TOPIC, *({"body": f"body {number}", "tags": f"T{number % 2}", "keys": f"K{number}"} for number in range(10)))
    first = java.push(CONSUMERS, TOPIC)
    assert len(first.received(10)) == 10
    first.shutdown()  # commits at once, where a running consumer takes ten seconds
    wait_until(lambda: sum(cluster.committed(CONSUMERS, TOPIC, number) for number in range(4)) == 10, 20, "the consumer committed")
    consumer = java.push(CONSUMERS, TOPIC)
    wait_until(lambda: len(consumer.queue_ids(TOPIC)) == 4, 20, "the consumer holds its queues")
    stage = Stage(cluster, java, admin, sent, consumer.started)
    for name, command in reading_commands(cluster.broker.address, sent[3]).items():
        stage.begin(name, *command)
    yield stage
    java.close()


def test_cluster_list_shows_the_broker(stage: Stage) -> None:
    (row,) = table(stage.printed("clusterList"))
    assert (row["Cluster Name"], row["Broker Name"], row["BID"], row["Addr"]) == (
        "DefaultCluster",
        "broker-a",
        "0",
        stage.cluster.broker.address,
    )
    assert row["Version"].startswith("V5_")
    assert row["ACTIVATED"].endswith("true"), "the last column: every column before it had its value"
    (more,) = table(stage.printed("clusterList more"))
    assert more["Broker Name"] == "broker-a"
    assert int(more["InTotalToday"]) >= 10 and int(more["OutTotalToday"]) >= 10
    assert (more["InTotalYest"], more["OutTotalYest"]) == ("0", "0")


def test_topic_list_has_our_topic_and_the_system_topics(stage: Stage) -> None:
    topics = set(stage.printed("topicList").split())
    system = {"TBW102", "SELF_TEST_TOPIC", "BenchmarkTest", "OFFSET_MOVED_EVENT", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC"}
    assert topics >= {TOPIC, "DefaultCluster", "broker-a", "%RETRY%" + CONSUMERS, "DefaultCluster_REPLY_TOPIC"} | system
    rows = {row["Topic"]: row for row in table(stage.printed("topicList groups"))}
    assert rows[TOPIC]["Consumer Group"] == CONSUMERS


def test_topic_route_names_broker_queues_and_permission(stage: Stage) -> None:
    route = wire.parse_json(stage.printed("topicRoute"))
    assert [(each["cluster"], each["brokerName"], each["brokerAddrs"]) for each in route["brokerDatas"]] == [
        ("DefaultCluster", "broker-a", {"0": stage.cluster.broker.address})
    ]
    assert route["queueDatas"] == [{"brokerName": "broker-a", "perm": 6, "readQueueNums": 4, "topicSysFlag": 0, "writeQueueNums": 4}]
    row = table(stage.printed("topicRoute list"))[0]
    assert (row["BrokerName"], row["BrokerAddrs"], row["ReadQueue"], row["WriteQueue"], row["Perm"]) == (
        "broker-a", f"{{0={stage.cluster.broker.address}}}", "4", "4", "6",
    )  # fmt: skip
    assert "DefaultCluster" in stage.printed("topicClusterList")


def test_topic_status_shows_offsets_and_update_times(stage: Stage) -> None:
    rows = table(stage.printed("topicStatus"))
    assert [(row["Broker Name"], row["QID"], row["Min Offset"]) for row in rows] == [("broker-a", str(number), "0") for number in range(4)]
    counts = [sum(each["queueId"] == number for each in stage.sent) for number in range(4)]
    assert [int(row["Max Offset"]) for row in rows] == counts
    assert all(row["Last Updated"].startswith("20") for row, count in zip(rows, counts, strict=True) if count)


RUNTIME = re.findall(
    r"\w+",
    """
    bootTimestamp brokerActive brokerVersionDesc commitLogDirCapacity commitLogDiskRatio commitLogMaxOffset commitLogMinOffset
    consumeQueueDiskRatio dispatchBehindBytes earliestMessageTimeStamp getFoundTps getMessageEntireTimeMax getMissTps getTotalTps
    getTransferredTps msgGetTotalTodayMorning msgGetTotalTodayNow msgGetTotalYesterdayMorning msgPutTotalTodayMorning
    msgPutTotalTodayNow msgPutTotalYesterdayMorning pageCacheLockTimeMills pullThreadPoolQueueCapacity
    pullThreadPoolQueueHeadWaitTimeMills pullThreadPoolQueueSize putMessageAverageSize putMessageDistributeTime
    putMessageEntireTimeMax putMessageFailedTimes putMessageSizeTotal putMessageTimesTotal putTps
    queryThreadPoolQueueHeadWaitTimeMills remainHowManyDataToFlush runtime sendThreadPoolQueueCapacity
    sendThreadPoolQueueHeadWaitTimeMills sendThreadPoolQueueSize startAcceptSendRequestTimeStamp
    """,
)


def test_broker_status_has_the_runtime_figures_dashboards_read(stage: Stage) -> None:
    status = fields(stage.printed("brokerStatus"))
    assert not set(RUNTIME) - set(status)
    assert status["brokerVersionDesc"].startswith("V5_")
    assert int(status["commitLogMaxOffset"]) > 0 and status["commitLogMinOffset"] == "0"
    assert int(status["msgPutTotalTodayNow"]) >= 10 and int(status["msgGetTotalTodayNow"]) >= 10
    assert int(status["putMessageTimesTotal"]) >= 10
    assert 0 < float(status["commitLogDiskRatio"]) < 1
    assert len(status["getTotalTps"].split()) == 3, "over 10 s, 1 min and 10 min"
    assert status["runtime"].startswith("[ 0 days, 0 hours, ")
    assert stage.cluster.broker.address in stage.printed("brokerStatus cluster")


def test_consumer_progress_shows_no_lag_and_who_reads(stage: Stage) -> None:
    rows = [row for row in table(stage.printed("consumerProgress")) if row["Topic"] == TOPIC]
    assert [row["QID"] for row in rows] == ["0", "1", "2", "3"]
    assert sum(int(row["Broker Offset"]) for row in rows) == 10
    assert all(row["Broker Offset"] == row["Consumer Offset"] and row["Diff"] == "0" for row in rows)
    assert "Consume Diff Total: 0" in stage.printed("consumerProgress")
    held = [row for row in table(stage.printed("consumerProgress clients")) if row["Topic"] == TOPIC]
    assert {row["Client IP"] for row in held} == {stage.consumer_id.split("@")[0]}, "asked from the consumer itself through the broker"
    (all_groups,) = [row for row in table(stage.printed("consumerProgress all")) if row["Group"] == CONSUMERS]
    assert (all_groups["Count"], all_groups["Version"], all_groups["Type"], all_groups["Model"]) == ("1", "V5_5_0", "PUSH", "CLUSTERING")


def test_connections_of_producers_and_consumers_are_listed(stage: Stage) -> None:
    (line,) = [each for each in stage.printed("producerConnection").splitlines() if each.strip()]
    assert line.split()[2].startswith("127.0.0.1:") and line.split()[3:] == ["JAVA", "V5_5_0"]
    printed = stage.printed("consumerConnection")
    (client,) = table(printed)
    assert (client["ClientId"], client["Language"], client["Version"]) == (stage.consumer_id, "JAVA", "V5_5_0")
    assert "ConsumeType: CONSUME_PASSIVELY" in printed and "MessageModel: CLUSTERING" in printed
    subscriptions = {row["Topic"]: row["SubExpression"] for row in table(printed[printed.index("#Topic") :])}
    assert subscriptions == {TOPIC: "*", "%RETRY%" + CONSUMERS: "*"}
    assert f"producer group ({PRODUCERS}) instance : clientId=" in stage.printed("producer")


def test_stats_of_a_topic_and_its_groups(stage: Stage) -> None:
    # Figures are sampled every ten seconds; a topic is active (-a) once it has one.
    (row,) = wait_until(lambda: table(stage.admin.run("statsAll", "-a", "-t", TOPIC)), 30, "figures of the topic")
    assert (row["Topic"], row["Consumer Group"], row["Accumulation"]) == (TOPIC, CONSUMERS, "0")
    consumed = [row for row in table(stage.printed("brokerConsumeStats")) if row["Group"] == CONSUMERS and row["Topic"] == TOPIC]
    assert sum(int(row["Consumer Offset"]) for row in consumed) == 10 and {row["Diff"] for row in consumed} == {"0"}


def test_configurations_of_broker_and_name_server_are_shown(stage: Stage) -> None:
    broker = fields(stage.printed("getBrokerConfig"), "=")
    expected = {
        "brokerName": "broker-a", "brokerClusterName": "DefaultCluster", "brokerId": "0", "brokerRole": "ASYNC_MASTER",
        "flushDiskType": "ASYNC_FLUSH",
        "listenPort": str(stage.cluster.broker.port), "storePathRootDir": str(stage.cluster.broker.store), "defaultTopicQueueNums": "8",
        "autoCreateTopicEnable": "true", "maxMessageSize": "4194304", "fileReservedTime": "72",
    }  # fmt: skip
    assert {name: broker.get(name) for name in expected} == expected
    assert fields(stage.printed("getNamesrvConfig"), "=")["listenPort"] == str(stage.cluster.namesrv.port)


@pytest.mark.parametrize("name", ["queryMsgById", "queryMsgByOffset", "queryMsgByUniqueKey"])
def test_a_message_is_found_and_its_consumption_told(stage: Stage, name: str) -> None:
    shown = fields(stage.printed(name))
    sent = stage.sent[3]
    assert (shown["Topic"], shown["Tags"], shown["Keys"]) == (TOPIC, "[T1]", "[K3]")
    assert (shown["Queue ID"], shown["Queue Offset"]) == (str(sent["queueId"]), str(sent["queueOffset"]))
    assert shown["Store Host"] == stage.cluster.broker.address
    assert f"UNIQ_KEY={sent['msgId']}" in shown["Properties"]
    assert f"consumerGroup={CONSUMERS}, trackType=CONSUMED" in stage.printed(name)


def test_a_message_is_found_by_its_key(stage: Stage) -> None:
    (row,) = table(stage.printed("queryMsgByKey"))
    assert (row["Message ID"], row["QID"]) == (stage.sent[3]["msgId"], str(stage.sent[3]["queueId"]))
    tagged = {row["Message ID"] for row in table(stage.printed("queryMsgByKey tags"))}
    assert tagged == {each["msgId"] for each in stage.sent[1::2]}


def test_messages_are_printed_by_topic_and_by_queue(stage: Stage) -> None:
    assert stage.printed("printMsg").count("MSGID: ") == 10
    assert stage.printed("printMsgByQueue").count("MSGID: ") == sum(each["queueId"] == 1 for each in stage.sent)


def test_consume_queue_entries_are_shown(stage: Stage) -> None:
    printed = stage.printed("queryCq")
    count = sum(each["queueId"] == 0 for each in stage.sent)
    assert f"max: {count}, min: 0" in printed
    assert printed.count("ConsumeQueueData{physicOffset=") == min(2, count)


def test_queues_are_allocated_and_replication_status_is_answered(stage: Stage) -> None:
    assert stage.printed("allocateMQ").count('"queueId"') == 4
    assert stage.cluster.broker.address in stage.printed("haStatus")


def test_mqadmin_sends_and_consumes(stage: Stage) -> None:
    stage.cluster.create_topic("admin-sends")
    (row,) = table(stage.admin.run("sendMessage", "-t", "admin-sends", "-p", "hello", "-k", "kk", "-c", "tt"))
    assert (row["Broker Name"], row["Send Result"]) == ("broker-a", "SEND_OK")
    printed = stage.admin.run("consumeMessage", "-t", "admin-sends")
    assert "KEYS=kk" in printed and "hello" in printed
    assert "Avg RT" in stage.admin.run("checkMsgSendRT", "-t", "admin-sends", "-a", "3", "-s", "10")
    assert stage.admin.run("sendMsgStatus", "-b", "broker-a", "-s", "10", "-c", "2").count("sendStatus=SEND_OK") == 2


def test_a_topic_is_changed_its_permission_taken_and_it_is_deleted(stage: Stage) -> None:
    admin, broker, cluster = stage.admin, stage.cluster.broker.address, stage.cluster
    admin.run("updateTopic", "-b", broker, "-t", "admin-changes", "-r", "8", "-w", "6")
    wait_until(lambda: [(each["readQueueNums"], each["writeQueueNums"]) for each in cluster.route("admin-changes")] == [(8, 6)], 15)
    assert "from 6 to 4" in admin.run("updateTopicPerm", "-t", "admin-changes", "-p", "4", "-b", broker)
    wait_until(lambda: [each["perm"] for each in cluster.route("admin-changes")] == [4], 15)
    assert "from 4 to 6" in admin.run("updateTopicPerm", "-t", "admin-changes", "-p", "6", "-c", "DefaultCluster")
    wait_until(lambda: [each["perm"] for each in cluster.route("admin-changes")] == [6], 15)
    admin.run("deleteTopic", "-c", "DefaultCluster", "-t", "admin-changes")
    wait_until(lambda: not cluster.route("admin-changes"), 15, "route gone")
    assert "admin-changes" not in admin.run("topicList").split()
    assert "CODE: 17" in admin.text("topicRoute", "-t", "admin-changes"), "TOPIC_NOT_EXIST"


def test_write_permission_is_wiped_and_given_back_by_the_name_server(stage: Stage) -> None:
    stage.cluster.create_topic("admin-wiped")
    assert "OK" in stage.admin.run("wipeWritePerm", "-b", "broker-a")
    assert [each["perm"] for each in stage.cluster.route("admin-wiped")] == [4]
    assert "OK" in stage.admin.run("addWritePerm", "-b", "broker-a")
    assert [each["perm"] for each in stage.cluster.route("admin-wiped")] == [6]


def test_a_subscription_group_is_created_shown_and_deleted(stage: Stage) -> None:
    admin = stage.admin
    assert "retryMaxTimes=3" in admin.run("updateSubGroup", "-c", "DefaultCluster", "-g", "GID-admin-new", "-r", "3")
    shown = fields(admin.run("getConsumerConfig", "-g", "GID-admin-new"), "=")
    assert (shown["groupName"], shown["retryMaxTimes"]) == ("GID-admin-new", "3")
    assert "success" in admin.run("deleteSubGroup", "-c", "DefaultCluster", "-g", "GID-admin-new")
    # Asking for an unknown group creates it, with defaults, where autoCreateSubscriptionGroup is on.
    assert fields(admin.run("getConsumerConfig", "-g", "GID-admin-new"), "=").get("retryMaxTimes", "16") == "16"


def test_configurations_are_changed_while_running(stage: Stage) -> None:
    admin, broker = stage.admin, stage.cluster.broker.address
    assert "success" in admin.run("updateBrokerConfig", "-b", broker, "-k", "waitTimeMillsInSendQueue", "-v", "300")
    assert fields(admin.run("getBrokerConfig", "-b", broker), "=")["waitTimeMillsInSendQueue"] == "300"
    assert "success" in admin.run("updateNamesrvConfig", "-k", "orderMessageEnable", "-v", "true")
    assert fields(admin.run("getNamesrvConfig"), "=")["orderMessageEnable"] == "true"


def test_the_name_servers_key_values_and_order_configuration(stage: Stage) -> None:
    admin = stage.admin
    admin.run("updateKvConfig", "-s", "SOME_NAMESPACE", "-k", "some-key", "-v", "some value")
    get_kv_config = 101
    where = {"namespace": "SOME_NAMESPACE", "key": "some-key"}
    assert wire.call(stage.cluster.address, get_kv_config, where).fields["value"] == "some value"
    admin.run("deleteKvConfig", "-s", "SOME_NAMESPACE", "-k", "some-key")
    assert wire.call(stage.cluster.address, get_kv_config, where).code == 22, "QUERY_NOT_FOUND"
    assert "broker-a:4" in admin.run("updateOrderConf", "-t", TOPIC, "-m", "put", "-v", "broker-a:4")
    assert "orderConf=[broker-a:4]" in admin.run("updateOrderConf", "-t", TOPIC, "-m", "get")
    assert "success" in admin.run("updateOrderConf", "-t", TOPIC, "-m", "delete")


@pytest.mark.slow
def test_offsets_are_reset_for_a_running_consumer_which_reads_again(stage: Stage) -> None:
    cluster = stage.cluster
    cluster.create_topic("admin-reset")
    producer = stage.java.producer()
    producer.send("admin-reset", *(f"{number}" for number in range(20)))
    consumer = stage.java.push("GID-admin-reset", "admin-reset")
    assert len(consumer.received(20)) == 20
    wait_until(
        lambda: sum(cluster.committed("GID-admin-reset", "admin-reset", number) for number in range(4)) == 20, 20, "the consumer committed"
    )
    rows = table(stage.admin.run("resetOffsetByTime", "-g", "GID-admin-reset", "-t", "admin-reset", "-s", "0"))
    assert {(row["brokerName"], row["queueId"], row["offset"]) for row in rows} == {("broker-a", str(number), "0") for number in range(4)}
    assert len(consumer.received(40, timeout=40)) == 40, "all of it once more"


def test_offsets_of_an_absent_group_are_reset_in_the_broker(stage: Stage) -> None:
    cluster = stage.cluster
    cluster.create_topic("admin-reset-absent")
    stage.java.producer().send("admin-reset-absent", *(f"{number}" for number in range(20)))
    consumer = stage.java.push("GID-admin-absent", "admin-reset-absent")
    assert len(consumer.received(20)) == 20
    consumer.shutdown()
    group = ("-g", "GID-admin-absent", "-t", "admin-reset-absent")
    assert "reset consumer offset to 1" in stage.admin.run(
        "resetOffsetByTime", *group, "-s", "0", "-b", cluster.broker.address, "-q", "0", "-o", "1"
    )
    again = stage.java.push("GID-admin-absent", "admin-reset-absent")
    read = sorted((each["queueId"], each["queueOffset"]) for each in again.received(4))  # by several threads
    assert read == [(0, 1), (0, 2), (0, 3), (0, 4)]


def test_accumulated_messages_are_skipped(stage: Stage) -> None:
    cluster = stage.cluster
    cluster.create_topic("admin-skip")
    producer = stage.java.producer()
    consumer = stage.java.push("GID-admin-skip", "admin-skip")
    producer.send("admin-skip", *(f"{number}" for number in range(8)))
    assert len(consumer.received(8)) == 8
    consumer.shutdown()
    producer.send("admin-skip", *(f"late {number}" for number in range(8)))
    reader = stage.java.pull("GID-admin-skip-reader")
    ends = {}

    def all_indexed() -> bool:
        ends.update({queue["queueId"]: reader.call("maxOffset", **queue) for queue in reader.call("queues", topic="admin-skip")})
        return sum(ends.values()) == 16

    wait_until(all_indexed, 10, "16 messages indexed")
    rows = table(stage.admin.run("skipAccumulatedMessage", "-g", "GID-admin-skip", "-t", "admin-skip"))
    assert {int(row["queueId"]): int(row["offset"]) for row in rows} == ends
    wait_until(
        lambda: {number: cluster.committed("GID-admin-skip", "admin-skip", number) for number in ends} == ends, 10, "offsets at the end"
    )


def test_offsets_are_cloned_to_another_group(stage: Stage) -> None:
    stage.admin.run("updateSubGroup", "-c", "DefaultCluster", "-g", "GID-admin-clone")
    stage.admin.run("cloneGroupOffset", "-s", CONSUMERS, "-d", "GID-admin-clone", "-t", TOPIC)
    for number in range(4):
        assert stage.cluster.committed("GID-admin-clone", TOPIC, number) == stage.cluster.committed(CONSUMERS, TOPIC, number)


def test_what_a_group_may_have_from_the_disk_is_set_and_shown(stage: Stage) -> None:
    group, broker = "GID-admin-cold", stage.cluster.broker.address
    assert "success" in stage.admin.run("updateColdDataFlowCtrGroupConfig", "-b", broker, "-g", group, "-v", "1024")

    def limits() -> dict[str, int]:
        shown = stage.admin.run("getColdDataFlowCtrInfo", "-b", broker)
        value = json.loads(shown[shown.index("{") : shown.rindex("}") + 1])
        assert (value["cgColdReadThreshold"], value["globalColdReadThreshold"], value["globalAcc"]) == (3 << 20, 100 << 20, 0)
        return value["configTable"]

    assert limits() == {group: 1024}
    assert "success" in stage.admin.run("removeColdDataFlowCtrGroupConfig", "-b", broker, "-g", group)
    assert limits() == {}


@pytest.mark.parametrize("command", ["cleanExpiredCQ", "cleanUnusedTopic", "deleteExpiredCommitLog"])
def test_cleaning_commands_are_accepted(stage: Stage, command: str) -> None:
    assert "success" in stage.admin.run(command, "-b", stage.cluster.broker.address)

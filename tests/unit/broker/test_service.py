"""The whole broker in one process, as its clients and operators see it."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from rocketpy._core.errors import RocketpyError, StoreLocked
from rocketpy._core.inspect import Damage, verify_store
from rocketpy._core.store import decode_message
from rocketpy.broker.service import BrokerService
from rocketpy.remoting.codes import RequestCode, ResponseCode
from rocketpy.remoting.json_codec import read_json, write_fastjson, write_json
from tests.unit.broker.running import Running, broker_config, eventually, has_ipv6_loopback, run, running


async def create_topic(at: Running, topic: str, queues: int = 4, **fields: object) -> None:
    header = {
        "topic": topic, "defaultTopic": "TBW102", "readQueueNums": queues, "writeQueueNums": queues, "perm": 6,
        "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": False,
    }  # fmt: skip
    answer = await at.peer().ask(RequestCode.UPDATE_AND_CREATE_TOPIC, {**header, **fields})
    assert answer.code == 0, answer.remark


def test_a_send_to_an_unknown_topic_makes_it_everywhere(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            answer = await peer.send("orders", b"one")
            assert answer.code == 0 and answer.fields["queueOffset"] == "0", answer.remark
            again = await peer.send("orders", b"two")
            assert again.fields["queueOffset"] == "1"
            config = await peer.value(RequestCode.GET_TOPIC_CONFIG, {"topic": "orders"})
            assert (config["readQueueNums"], config["perm"]) == (4, 6)
            assert '"orders"' in (tmp_path / "store/config/topics.json").read_text(), "on disk before the send was answered"
            await eventually(lambda: "orders" in at.namesrv.routes.all_topics(), "the name server knows the topic")

    run(test)


def test_pulled_records_are_what_was_sent_and_offsets_survive_a_restart(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            for number in range(3):
                assert (await peer.send("t", b"%d" % number, f"TAGS\x01tag{number}\x02KEYS\x01k{number}")).code == 0
            answer = await peer.pull("g", "t")
            assert answer.code == 0 and answer.fields["nextBeginOffset"] == "3"
            first = decode_message(answer.body[: int.from_bytes(answer.body[:4], "big")])
            assert (first.body, first.properties["TAGS"], first.properties["CLUSTER"]) == (b"0", "tag0", "DefaultCluster")
            commit = {"consumerGroup": "g", "topic": "t", "queueId": 0, "commitOffset": 2}
            assert (await peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit)).code == 0
        async with running(tmp_path) as at:
            peer = at.peer()
            offset = await peer.ask(RequestCode.QUERY_CONSUMER_OFFSET, {"consumerGroup": "g", "topic": "t", "queueId": 0})
            assert offset.fields["offset"] == "2"
            assert (await peer.pull("g", "t", offset=2)).fields["nextBeginOffset"] == "3"
            assert (await peer.ask(RequestCode.GET_MAX_OFFSET, {"topic": "t", "queueId": 0})).fields["offset"] == "3"

    run(test)


def test_a_topic_that_is_compacted_and_has_batch_queues_is_made_and_gets_no_messages(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            await create_topic(at, "special", attributes="+queue.type=BatchCQ,+cleanup.policy=COMPACTION")
            peer = at.peer()
            answer = await peer.send("special")
            assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED, answer.remark
            assert answer.remark.startswith("this broker does not support sends to TopicConfig [topicName=special, ")
            assert (await peer.ask(RequestCode.GET_MAX_OFFSET, {"topic": "special", "queueId": 0})).fields["offset"] == "0"

    run(test)


def test_a_new_group_begins_with_the_first_message_of_a_queue_that_has_none_yet(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            await create_topic(at, "t")
            peer = at.peer()
            queue = {"consumerGroup": "nobody-knows-it", "topic": "t", "queueId": 1}
            for group in ("nobody-knows-it", "known"):  # the first is answered by Python, the second by the fast path
                await peer.pull("known", "t")
                answer = await peer.ask(RequestCode.QUERY_CONSUMER_OFFSET, {**queue, "consumerGroup": group})
                assert (answer.code, answer.fields.get("offset")) == (0, "0"), answer.remark
            for other in ({"queueId": 4}, {"topic": "none"}, {"setZeroIfNotFound": False}):
                assert (await peer.ask(RequestCode.QUERY_CONSUMER_OFFSET, {**queue, **other})).code == ResponseCode.QUERY_NOT_FOUND

    run(test)


def test_positions_of_a_queue(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            sent = await peer.send("t", b"x")
            queue = {"topic": "t", "queueId": 0}
            assert (await peer.ask(RequestCode.GET_MIN_OFFSET, queue)).fields["offset"] == "0"
            assert int((await peer.ask(RequestCode.GET_EARLIEST_MSG_STORETIME, queue)).fields["timestamp"]) > 0
            nowhere = await peer.ask(RequestCode.GET_EARLIEST_MSG_STORETIME, {"topic": "nowhere", "queueId": 0})
            assert nowhere.fields["timestamp"] == "-1"
            for timestamp, offset in ((0, "0"), (1 << 50, "1")):
                answer = await peer.ask(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, {**queue, "timestamp": timestamp})
                assert answer.fields["offset"] == offset
            at_offset = int(sent.fields["msgId"][-16:], 16)
            seen = await peer.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": at_offset})
            assert decode_message(seen.body).body == b"x"
            for bad in (-1, at_offset + 3, 1 << 40):
                refused = await peer.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": bad})
                assert (refused.code, refused.remark) == (1, f"can not find message by the offset, {bad}")
            entries = await peer.value(RequestCode.QUERY_CONSUME_QUEUE, {**queue, "index": 0, "count": 5})
            assert entries["maxQueueIndex"] == 1 and entries["queueData"][0]["physicOffset"] == at_offset

    run(test)


def test_without_automatic_creation_an_unknown_topic_is_refused(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, autoCreateTopicEnable="false", autoCreateSubscriptionGroup="false") as at:
            peer = at.peer()
            answer = await peer.send("orders")
            assert answer.code == ResponseCode.TOPIC_NOT_EXIST and "topic[orders] not exist, apply first please!" in (answer.remark or "")
            pulled = await peer.pull("strangers", "BenchmarkTest")
            assert pulled.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST

    run(test)


def test_messages_are_found_by_their_tags_as_by_their_keys(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            await create_topic(at, "t")
            peer, store = at.peer(), at.broker.parts.store
            sent = ["UNIQ_KEY\x01u1\x02TAGS\x01red\x02", "TAGS\x01red\x02KEYS\x01k\x02", "TAGS\x01blue\x02KEYS\x01red\x02"]
            for number, properties in enumerate(sent):  # with keys the index thread reads the record, without the send path has hashed it
                assert (await peer.send("t", b"%d" % number, properties)).code == 0
            await eventually(lambda: store.query("t", "T#blue", 0, 1 << 60, 8).offsets, "the last one is in the index")

            async def found(key: str, index_type: str, **fields: object) -> list[bytes]:
                query = {"topic": "t", "key": key, "maxNum": 32, "beginTimestamp": 0, "endTimestamp": 1 << 60, "indexType": index_type}
                body = (await peer.ask(RequestCode.QUERY_MESSAGE, {**query, **fields})).body
                bodies = []
                while body:
                    bodies.append(decode_message(body[: int.from_bytes(body[:4], "big")]).body)
                    body = body[int.from_bytes(body[:4], "big") :]
                return bodies

            assert await found("red", "T") == [b"0", b"1"]
            assert await found("red", "K") == [b"2"] and await found("u1", "") == [b"0"]
            assert await found("u1", "T") == []
        damages: list[Damage] = []
        shape = {"slot_count": 5_000_000, "entry_count_max": 20_000_000}
        verify_store(str(tmp_path / "store"), on_damage=damages.append, **shape)
        assert not damages, "every entry of the index points at a message with that key or those tags"

    run(test)


def test_pulls_that_cannot_be_answered_say_why(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            await create_topic(at, "t")
            assert (await peer.pull("g", "unknown")).code == ResponseCode.TOPIC_NOT_EXIST
            sql = await peer.pull("g", "t", subscription="a > 1", expressionType="SQL92")
            assert (sql.code, sql.remark) == (1, "The broker does not support consumer to filter message by SQL92")
            assert (await peer.pull("g", "t", expressionType="")).code == ResponseCode.PULL_NOT_FOUND, "no type is by tags"
            assert (await peer.pull("g", "t", sysFlag=0)).code == ResponseCode.SUBSCRIPTION_NOT_EXIST
            await peer.heartbeat("c", "g", "t")
            assert (await peer.pull("g", "t", sysFlag=0)).code == ResponseCode.PULL_NOT_FOUND
            await peer.value(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, {"group": "g", "topic": "t", "readable": False})
            forbidden = await peer.pull("g", "t", sysFlag=0)
            assert forbidden.code == ResponseCode.NO_PERMISSION and forbidden.fields["forbiddenType"] == "5"
            await peer.value(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, {"group": "g", "topic": "t", "readable": True})
            assert (await peer.pull("g", "t", sysFlag=0)).code == ResponseCode.PULL_NOT_FOUND

    run(test)


def test_members_of_a_group_hear_of_each_other(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            await create_topic(at, "t")
            one, two = at.peer(), at.peer()
            await one.heartbeat("one", "g", "t")
            await two.heartbeat("two", "g", "t")
            await eventually(lambda: len(one.requests) == 2, "news of both")
            assert {request.code for request in one.requests} == {RequestCode.NOTIFY_CONSUMER_IDS_CHANGED}
            assert one.requests[0].fields == {"consumerGroup": "g"} and one.requests[0].is_oneway
            members = await one.value(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "g"})
            assert members == {"consumerIdList": ["one", "two"]}
            assert "%RETRY%g" in at.broker.parts.topics
            await two.client.stop()
            await eventually(lambda: len(one.requests) == 3, "news of the one that left")
            shown = await one.value(RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "g"})
            assert [known["clientId"] for known in shown["connectionSet"]] == ["one"] and set(shown["subscriptionTable"]) == {"t"}
            await one.ask(RequestCode.UNREGISTER_CLIENT, {"clientID": "one", "consumerGroup": "g", "producerGroup": "producers"})
            gone = await one.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "g"})
            assert (gone.code, gone.remark) == (1, "no consumer for this group, g")

    run(test)


def test_a_version_2_heartbeat_is_asked_for_what_the_broker_lacks(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            consumer = {"groupName": "g", "subscriptionDataSet": [{"topic": "t", "subVersion": 1}]}
            full = {"clientID": "c", "consumerDataSet": [consumer], "heartbeatFingerprint": 7}
            short = {"clientID": "c", "consumerDataSet": [{"groupName": "g"}], "heartbeatFingerprint": 7, "withoutSub": True}
            first = await peer.ask(RequestCode.HEART_BEAT, {}, short)
            assert first.fields == {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}, "nothing is known of its subscriptions"
            assert (await peer.ask(RequestCode.HEART_BEAT, {}, full)).fields["IS_SUB_CHANGE"] == "false"
            assert (await peer.ask(RequestCode.HEART_BEAT, {}, short)).fields["IS_SUB_CHANGE"] == "false"
            other = await peer.ask(RequestCode.HEART_BEAT, {}, {**full, "heartbeatFingerprint": 8})
            assert other.fields["IS_SUB_CHANGE"] == "true"
            old_client = at.peer()
            one_topic = {"groupName": "g", "subscriptionDataSet": [{"topic": "another", "subVersion": 1}]}
            await old_client.ask(RequestCode.HEART_BEAT, {}, {"clientID": "old", "consumerDataSet": [one_topic]})
            again = await peer.ask(RequestCode.HEART_BEAT, {}, {**short, "heartbeatFingerprint": 8})
            assert again.fields["IS_SUB_CHANGE"] == "true", "a client of version 1 has put its subscriptions in the place of this one's"

    run(test)


def test_queue_locks_are_granted_once(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            queues = [{"topic": "t", "brokerName": "broker-a", "queueId": 0}]
            body = {"consumerGroup": "g", "clientId": "one", "mqSet": queues}
            assert (await peer.value(RequestCode.LOCK_BATCH_MQ, {}, body))["lockOKMQSet"] == queues
            assert (await peer.value(RequestCode.LOCK_BATCH_MQ, {}, body | {"clientId": "two"}))["lockOKMQSet"] == []
            assert (await peer.ask(RequestCode.UNLOCK_BATCH_MQ, {}, body)).code == 0
            assert (await peer.value(RequestCode.LOCK_BATCH_MQ, {}, body | {"clientId": "two"}))["lockOKMQSet"] == queues

    run(test)


def test_granted_locks_are_told_as_fastjson_writes_them(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            names = ['"quoted" \\ {null:[["0":1]]}', "\x01\x7f\u2028", "ümläut \U0001f680", "t"]
            queues = [{"topic": topic, "brokerName": topic[::-1], "queueId": number} for topic in names for number in (0, -1, 2**31 - 1)]
            body = {"consumerGroup": "g", "clientId": "one", "mqSet": queues}
            assert (await at.peer().ask(RequestCode.LOCK_BATCH_MQ, {}, body)).body == write_fastjson({"lockOKMQSet": queues})
            none = {"consumerGroup": "g", "clientId": "two", "mqSet": queues}
            assert (await at.peer().ask(RequestCode.LOCK_BATCH_MQ, {}, none)).body == write_fastjson({"lockOKMQSet": []})

    run(test)


def test_topics_and_groups_are_administered_and_survive(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            await create_topic(at, "t", attributes="+message.type=FIFO")
            assert (await at.namesrv_route("t"))["queueDatas"][0]["writeQueueNums"] == 4
            listed = {"topicConfigList": [{"topicName": name, "readQueueNums": 2, "writeQueueNums": 2} for name in ("a", "b")]}
            assert (await peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, {}, listed)).code == 0
            group = {"groupName": "g", "retryMaxTimes": 3}
            assert (await peer.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, group)).code == 0
            groups = {"groupConfigList": [{"groupName": "h"}]}
            assert (await peer.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, {}, groups)).code == 0
            refused = await peer.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, {"groupName": "a b"})
            assert refused.code == ResponseCode.INVALID_PARAMETER
            deep: list[object] = []
            for _ in range(300):  # no file could be written with it in the table
                deep = [deep]
            refused = await peer.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, {"groupName": "deep", "unknown": deep})
            assert refused.code == ResponseCode.INVALID_PARAMETER and "nested deeper than 100" in (refused.remark or "")
            assert (await peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "b"})).code == 0
            assert (await peer.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "h", "cleanOffset": True})).code == 0
        async with running(tmp_path) as at:
            peer = at.peer()
            everything = await peer.ask(RequestCode.GET_ALL_TOPIC_CONFIG)
            table = read_json(everything.body)["topicConfigTable"]
            assert table["t"]["attributes"] == {"message.type": "FIFO"} and table["a"]["readQueueNums"] == 2 and "b" not in table
            assert everything.fields["totalTopicNum"] == str(len(table))
            config = await peer.value(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "g"})
            assert config["retryMaxTimes"] == 3
            groups = await peer.value(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
            assert "h" not in groups["subscriptionGroupTable"]

    run(test)


def test_tables_can_be_copied_piece_by_piece(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            whole = await peer.value(RequestCode.GET_ALL_TOPIC_CONFIG)
            copied: dict[str, object] = {}
            version = None
            while len(copied) < len(whole["topicConfigTable"]):
                fields = {"topicSeq": len(copied), "maxTopicNum": 5} | ({"dataVersion": write_json(version).decode()} if version else {})
                piece = await peer.value(RequestCode.GET_ALL_TOPIC_CONFIG, fields)
                assert 0 < len(piece["topicConfigTable"]) <= 5
                copied |= piece["topicConfigTable"]
                version = piece["dataVersion"]
            assert copied == whole["topicConfigTable"]
            stale = write_json({"counter": 99, "stateVersion": 0, "timestamp": 1}).decode()
            restarted = await peer.value(RequestCode.GET_ALL_TOPIC_CONFIG, {"topicSeq": 5, "maxTopicNum": 1, "dataVersion": stale})
            assert list(restarted["topicConfigTable"]) == [sorted(whole["topicConfigTable"])[0]]

    run(test)


def test_lag_is_told_and_offsets_are_reset_copied_and_corrected(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            await create_topic(at, "t", 1)
            for _ in range(5):
                await peer.send("t")
            await peer.pull("g", "t")
            commit = {"consumerGroup": "g", "topic": "t", "queueId": 0, "commitOffset": 2}
            await peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit)
            (lag,) = (await peer.value(RequestCode.GET_CONSUME_STATS, {"consumerGroup": "g"}))["offsetTable"].values()
            assert (lag["brokerOffset"], lag["consumerOffset"], lag["pullOffset"]) == (5, 2, 5) and lag["lastTimestamp"] > 0
            stats = await peer.value(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": False})
            assert (stats["totalDiff"], stats["totalInflightDiff"]) == (3, 3)
            (span,) = (await peer.value(RequestCode.QUERY_CONSUME_TIME_SPAN, {"group": "g", "topic": "t"}))["consumeTimeSpanSet"]
            assert span["minTimeStamp"] <= span["consumeTimeStamp"] <= span["maxTimeStamp"] and span["delayTime"] >= 0
            await peer.ask(RequestCode.CLONE_GROUP_OFFSET, {"srcGroup": "g", "destGroup": "h", "topic": "t", "offline": True})
            assert await peer.value(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": "t"}) == {"groupList": ["g", "h"]}
            corrected = await peer.value(RequestCode.QUERY_CORRECTION_OFFSET, {"topic": "t", "compareGroup": "g", "filterGroups": "h"})
            assert corrected == {"correctionOffsets": {"0": 2}}
            reset = {"topic": "t", "group": "g", "timestamp": -1, "isForce": True, "queueId": 0, "offset": 1}
            assert list((await peer.value(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset))["offsetTable"].values()) == [1]
            moved = await peer.pull("g", "t", offset=5)
            assert (moved.code, moved.fields["nextBeginOffset"]) == (ResponseCode.PULL_OFFSET_MOVED, "1"), "the next pull is sent there"
            assert (await peer.pull("g", "t", offset=1)).fields["nextBeginOffset"] == "5", "once"
            beyond = await peer.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, {**reset, "offset": 9})
            assert (beyond.code, beyond.remark) == (1, "Target offset 9 not in consume queue range [0-5]")
            everywhere = await peer.value(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, {**reset, "queueId": -1, "timestamp": 0})
            assert list(everywhere["offsetTable"].values()) == [0]

    run(test)


def test_a_question_for_a_client_is_passed_on(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            peer, asker = at.peer(), at.peer()
            missing = await asker.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": "g", "clientId": "c"})
            assert (missing.code, missing.remark) == (1, "The Consumer <g> <c> not online")
            await peer.heartbeat("c", "g", "t")
            asked = asyncio.create_task(asker.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": "g", "clientId": "c"}))
            await eventually(lambda: [request for request in peer.requests if request.code == RequestCode.GET_CONSUMER_RUNNING_INFO])
            await peer.client.stop()  # it dies instead of answering
            answer = await asked
            assert answer.code == 1 and "invoke consumer <g> <c> Exception" in (answer.remark or "")

    run(test)


def test_runtime_figures_move_with_the_messages(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            await peer.send("t", b"x" * 100)
            table = (await peer.value(RequestCode.GET_BROKER_RUNTIME_INFO))["table"]
            assert table["msgPutTotalTodayNow"] == "1" and int(table["commitLogMaxOffset"]) > 100
            assert int(table["earliestMessageTimeStamp"]) > 0 and table["brokerActive"] == "true"
            stats = await peer.value(RequestCode.VIEW_BROKER_STATS_DATA, {"statsName": "TOPIC_PUT_NUMS", "statsKey": "t"})
            assert stats["statsDay"]["sum"] == 1
            unknown = await peer.ask(RequestCode.VIEW_BROKER_STATS_DATA, {"statsName": "TOPIC_PUT_NUMS", "statsKey": "u"})
            assert (unknown.code, unknown.remark) == (1, "The stats <TOPIC_PUT_NUMS> <u> not exist")

    run(test)


def test_queues_are_divided_by_the_broker(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            await create_topic(at, "t", 4)
            one, two = at.peer(), at.peer()
            await one.heartbeat("one", "g", "t")
            await two.heartbeat("two", "g", "t")
            body = {"topic": "t", "consumerGroup": "g", "clientId": "one", "messageModel": "CLUSTERING", "strategyName": "AVG"}
            assigned = await one.value(RequestCode.QUERY_ASSIGNMENT, {}, body)
            assert [each["messageQueue"]["queueId"] for each in assigned["messageQueueAssignments"]] == [0, 1]
            mode = {"topic": "t", "consumerGroup": "g", "mode": "POP", "popShareQueueNum": 1}
            for name, queues in (("POP", {-1}), ("PULL", {0, 1})):
                assert (await one.ask(RequestCode.SET_MESSAGE_REQUEST_MODE, {}, mode | {"mode": name})).code == 0
                assigned = (await one.value(RequestCode.QUERY_ASSIGNMENT, {}, body))["messageQueueAssignments"]
                assert {each["mode"] for each in assigned} == {name}
                assert {each["messageQueue"]["queueId"] for each in assigned} == queues
            assert (await one.value(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE))["messageRequestModeMap"]["t"]["g"]["popShareQueueNum"] == 1

    run(test)


def test_a_group_that_pops_in_the_store_taken_over_goes_on_to(tmp_path: Path) -> None:
    config = tmp_path / "store" / "config"
    config.mkdir(parents=True)
    mode = {"topic": "t", "consumerGroup": "g", "mode": "POP", "popShareQueueNum": 1}
    (config / "messageRequestMode.json").write_bytes(write_json({"messageRequestModeMap": {"t": {"g": mode}}}))

    async def test() -> None:
        async with running(tmp_path) as at:
            await create_topic(at, "t", 4)
            await at.peer().heartbeat("one", "g", "t")
            body = {"topic": "t", "consumerGroup": "g", "clientId": "one", "messageModel": "CLUSTERING", "strategyName": "AVG"}
            assigned = await at.peer().value(RequestCode.QUERY_ASSIGNMENT, {}, body)
            assert {each["mode"] for each in assigned["messageQueueAssignments"]} == {"POP"}

    run(test)


def test_both_listeners_know_the_same_clients(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            if len(at.broker._servers) < 2:
                pytest.skip("the port of the VIP channel is taken by another process")
            host, _, port = at.broker.address.rpartition(":")
            vip = f"{host}:{int(port) - 2}"
            one, two = at.peer(), at.peer()
            two.address = vip
            await one.heartbeat("one", "g", "t")
            await two.heartbeat("two", "g", "t")
            await eventually(lambda: len(two.requests) == 1 and len(one.requests) == 2, "news on both listeners")
            await two.client.stop()
            await eventually(lambda: len(one.requests) == 3, "the end of a VIP connection is noticed")
            assert (await at.peer().send("t")).code == 0

    run(test)


def test_every_request_gets_an_answer(tmp_path: Path) -> None:
    """Every code that exists, and some that do not, with nothing, with garbage and with wrong types: an answer, and the broker lives."""

    async def test() -> None:
        noise = random.Random(20261121)
        names = [
            "topic",
            "group",
            "consumerGroup",
            "queueId",
            "offset",
            "timestamp",
            "clientID",
            "readQueueNums",
            "perm",
            "a",
            "b",
            "e",
            "isForce",
        ]
        bodies = [
            b"",
            b"{}",
            b"[]",
            b"{",
            b"null",
            b"\xff" * 20,
            b'{"consumerDataSet":7}',
            b'{"mqSet":[{}]}',
            b'{"topic":{}}',
            noise.randbytes(200),
        ]
        slow = {RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE}
        async with running(tmp_path) as at:
            peer = at.peer()
            for code in [*RequestCode, 1, 9999, -1, 65_536]:
                for _ in range(3):
                    fields = {name: noise.choice(["", "-1", "x", "0", "99999999999999999999", "true"]) for name in noise.sample(names, 6)}
                    if code in slow:
                        fields["suspendTimeoutMillis"] = "0"
                    answer = await peer.ask(code, fields, noise.choice(bodies))
                    assert answer.code == 0 or answer.remark, f"{code} was refused without a word"
            assert (await at.peer().send("t", b"still here")).code == 0

    run(test)


def test_unknown_requests_are_named(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            answer = await at.peer().ask(9999)
            assert (answer.code, answer.remark) == (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, " request type 9999 not supported")

    run(test)


def test_a_second_broker_on_the_same_store_is_refused_by_name(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path):
            second = BrokerService(broker_config(tmp_path))
            with pytest.raises(StoreLocked, match="open already"):
                await second.start()
            await second.stop()

    run(test)


def test_a_taken_port_ends_the_start_leaves_a_clean_store_and_the_owner_registered(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path / "one") as at:
            port, known = str(at.broker.port), at.namesrv.routes.cluster_info()
            with pytest.raises(RocketpyError):
                await BrokerService(broker_config(tmp_path / "two", listenPort=port, namesrvAddr=f"127.0.0.1:{at.namesrv.port}")).start()
            assert at.namesrv.routes.cluster_info() == known != {}
        assert not (tmp_path / "two/store/abort").exists()

    run(test)


def test_pulls_that_wait_are_answered_before_a_stopping_broker_closes_their_connections(tmp_path: Path) -> None:
    """A pull that is cut off with its connection may be missed by RocketMQ's Java client for its whole time-out: the queue stands still."""

    async def test() -> None:
        async with running(tmp_path) as at:
            peers = [at.peer() for _ in range(3)]
            assert (await peers[0].send("t")).code == 0
            assert (await peers[0].pull("g", "t")).code == 0  # makes the group
            pulls = [peer.pull("g", "t", queue_id, 1 - min(queue_id, 1), sysFlag=6, suspendTimeoutMillis=3_600_000)
                     for peer in peers for queue_id in range(4)]  # fmt: skip
            held = [asyncio.ensure_future(pull) for pull in pulls]
            native = at.broker.parts.native
            await eventually(lambda: native.stats()["pulls_suspended_now"] == len(held), "all of them wait")
            await at.broker.stop()
            answers = await asyncio.gather(*held)
            assert {(answer.code, answer.remark) for answer in answers} == {
                (ResponseCode.SYSTEM_BUSY, "[REJECTREQUEST]the broker is stopping")
            }

    run(test)


def test_a_stopped_broker_has_left_the_name_server_and_its_files_are_whole(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            await at.peer().send("t")
            await at.broker.stop()
            await at.broker.stop()
            assert at.namesrv.routes.cluster_info()["brokerAddrTable"] == {}
        store = tmp_path / "store"
        assert not (store / "abort").exists() and (store / "checkpoint").exists()
        assert not list((store / "config").glob("*.tmp"))

    run(test)


def test_without_a_name_server_the_broker_starts_and_says_where_it_is(tmp_path: Path) -> None:
    async def test() -> None:
        broker = BrokerService(broker_config(tmp_path, advertise="broker.example:1234"))
        await broker.start()
        try:
            assert broker.address == "broker.example:1234" and broker.port > 0
        finally:
            await broker.stop()

    run(test)


@pytest.mark.skipif(not has_ipv6_loopback(), reason="this machine has no IPv6")
def test_a_broker_of_an_ipv6_host(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, bindAddress="::1", brokerIP1="::1", brokerIP2="::1") as at:
            assert at.broker.address == f"[::1]:{at.broker.port}"
            sent = await at.peer().send("t", b"six")
            assert sent.code == 0 and len(sent.fields["msgId"]) == 56, "16 bytes of address, 4 of port, 8 of offset"
            answer = await at.peer().pull("g", "t")
            assert decode_message(answer.body).store_host == at.broker.address

    run(test)

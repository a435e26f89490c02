"""What people and tools do to a broker: topics and groups made and deleted, queries of every kind, configuration changed while it runs."""

from __future__ import annotations

import asyncio
import json
import random
import urllib.request
from collections.abc import Mapping

from rocketpy.remoting.client import RemotingClient
from rocketpy.remoting.codes import RequestCode, ResponseCode

from .course import Course
from .ledger import Ledger
from .names import (
    LASTING_GROUPS,
    LASTING_TOPICS,
    LOAD_TOPIC,
    PROBE_TOPIC,
    QUEUES,
    TEMPORARY_GROUP,
    TEMPORARY_GROUPS,
    TEMPORARY_TOPIC,
    TEMPORARY_TOPICS,
    VISITOR,
)
from .traffic import some_key
from .visitors import heartbeat
from .wire import LATER, ask, messages_of, properties_of, pull_fields, send_fields

RETRY_PREFIX = "%RETRY%"
LIVE_KEYS: Mapping[str, tuple[str, ...]] = {
    "flushIntervalCommitLog": ("500", "20"),
    "maxTransferCountOnMessageInMemory": ("32", "7"),
    "maxTransferBytesOnMessageInMemory": ("262144", "20000"),
    "accessMessageInMemoryMaxRatio": ("40", "0"),
    "slaveTimeout": ("3000", "2000"),
    "logLevel": ("INFO", "DEBUG"),
    "maxMsgsNumBatch": ("64", "8"),
    "brokerRole": ("SYNC_MASTER", "ASYNC_MASTER"),
    "deleteFileBatchMax": ("10", "3"),
}
"""Values that are tried in turn; the first is the one before the soak."""


class Operator:
    """Requests to the master and the name server by somebody with a client of his own."""

    def __init__(self, course: Course, ledger: Ledger, address: str, names_address: str, metrics_port: int) -> None:
        self._course = course
        self._ledger = ledger
        self._address = address
        self._names_address = names_address
        self._metrics_port = metrics_port
        self._queries = course.dice("queries")

    # ---- topics and groups that pass ----

    async def make_and_delete(self) -> None:
        dice = self._course.dice("passing topics")
        async with RemotingClient() as client:
            async for number in self._course.turns("topics and groups that came and went", 0.5, 12, until=0.97):
                topic = f"{TEMPORARY_TOPIC}{number % TEMPORARY_TOPICS}"
                group = f"{TEMPORARY_GROUP}{number % TEMPORARY_GROUPS}"
                if number % 3:
                    await self._make(client, topic, group, dice)
                await self._use(client, topic, group, dice)
                await self._delete(client, topic, group)

    async def _make(self, client: RemotingClient, topic: str, group: str, dice: random.Random) -> None:
        await self._ask(client, self._address, RequestCode.UPDATE_AND_CREATE_TOPIC, topic_fields(topic, dice.randrange(1, 5)))
        body = json.dumps({"groupName": group, "consumeEnable": True, "retryQueueNums": 1, "retryMaxTimes": 16}).encode()
        await self._ask(client, self._address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)

    async def _use(self, client: RemotingClient, topic: str, group: str, dice: random.Random) -> None:
        """Made by the first send and the first heartbeat where nobody has made it."""
        for number in range(dice.randrange(1, 8)):
            fields = send_fields(topic, 0, properties_of(f"passing-{number}", "A"))
            answer = await ask(self._course, client, self._address, RequestCode.SEND_MESSAGE_V2, fields, b"x" * dice.randrange(1, 3000))
            assert answer is None or answer.code in {ResponseCode.SUCCESS, *LATER}, f"send to {topic}: {answer.code} {answer.remark}"
        client_id = f"{VISITOR}of-{group}"
        await self._ask(client, self._address, RequestCode.HEART_BEAT, body=heartbeat(client_id, group, {topic: "A"}))
        pulled = await ask(
            self._course, client, self._address, RequestCode.PULL_MESSAGE, pull_fields(group, topic, 0, 0, tags="A", commit=0)
        )
        if pulled is not None and pulled.code == ResponseCode.SUCCESS:
            assert all(message.topic == topic for message in messages_of(pulled))
        queue = {"consumerGroup": group, "topic": topic, "queueId": "0"}
        await self._ask(client, self._address, RequestCode.UPDATE_CONSUMER_OFFSET, {**queue, "commitOffset": "1"})
        await self._ask(client, self._address, RequestCode.GET_CONSUME_STATS, {"consumerGroup": group, "topic": topic})
        locked = {"consumerGroup": group, "clientId": client_id, "mqSet": [{"topic": topic, "brokerName": "soak", "queueId": 0}]}
        for code in (RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ):
            await self._ask(client, self._address, code, body=json.dumps(locked).encode())
        await self._ask(
            client, self._address, RequestCode.UNREGISTER_CLIENT, {"clientID": client_id, "consumerGroup": group, "producerGroup": group}
        )

    async def _delete(self, client: RemotingClient, topic: str, group: str) -> None:
        """As mqadmin does: deleteTopic at the broker, then at the name server; deleteSubGroup, then the group's retry topic."""
        await self._ask(client, self._address, RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": group, "cleanOffset": "true"})
        for doomed in (topic, RETRY_PREFIX + group):
            await self._ask(client, self._address, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": doomed})
            await self._ask(client, self._names_address, RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": doomed})

    async def delete_all(self) -> None:
        """What a restart had come between; at the end."""
        async with RemotingClient() as client:
            for number in range(max(TEMPORARY_TOPICS, TEMPORARY_GROUPS)):
                await self._delete(client, f"{TEMPORARY_TOPIC}{number}", f"{TEMPORARY_GROUP}{number}")

    # ---- questions ----

    async def ask_around(self) -> None:
        async for number in self._course.turns("queries", 0.25, 40):
            async with RemotingClient() as client:
                if number % 10 == 9:
                    await self.scrape()
                elif number % 10 == 4:
                    await self._look_up_by_key(client)
                else:
                    await self._query(client)

    async def scrape(self) -> str:
        """What Prometheus gets; empty while the broker is away."""
        restarts = self._course.restarts
        try:
            return await asyncio.to_thread(read_page, self._metrics_port)
        except OSError as error:
            assert self._course.may_fail(restarts), f"metrics: {error}"
            return ""

    async def _query(self, client: RemotingClient) -> None:
        dice = self._queries
        topic, queue_id = dice.choice(LASTING_TOPICS), str(dice.randrange(QUEUES))
        group = dice.choice(LASTING_GROUPS)
        at_ms = str(1_000_000_000_000 + dice.randrange(1 << 41))
        code, fields = dice.choice(
            (
                (RequestCode.GET_BROKER_RUNTIME_INFO, {}),
                (RequestCode.GET_BROKER_CONFIG, {}),
                (RequestCode.GET_ALL_TOPIC_CONFIG, {}),
                (RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, {}),
                (RequestCode.GET_ALL_CONSUMER_OFFSET, {}),
                (RequestCode.GET_BROKER_HA_STATUS, {}),
                (RequestCode.GET_ALL_PRODUCER_INFO, {}),
                (RequestCode.GET_TOPIC_STATS_INFO, {"topic": topic}),
                (RequestCode.GET_CONSUME_STATS, {"consumerGroup": group, "topic": topic}),
                (RequestCode.VIEW_BROKER_STATS_DATA, {"statsName": "TOPIC_PUT_NUMS", "statsKey": topic}),
                (RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, {"topic": topic, "queueId": queue_id, "timestamp": at_ms}),
                (RequestCode.GET_EARLIEST_MSG_STORETIME, {"topic": topic, "queueId": queue_id}),
                (RequestCode.QUERY_CONSUME_QUEUE, {"topic": topic, "queueId": queue_id, "index": "0", "count": "20"}),
                (RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": topic}),
                (RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": topic, "group": group}),
                (RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": group}),
                (RequestCode.CLONE_GROUP_OFFSET, {"srcGroup": group, "destGroup": LASTING_GROUPS[0], "topic": topic}),
                (RequestCode.DELETE_EXPIRED_COMMITLOG, {}),
                (RequestCode.CLEAN_UNUSED_TOPIC, {}),
            )
        )
        await self._ask(client, self._address, code, fields)
        asked = dice.choice((RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.GET_BROKER_CLUSTER_INFO))
        await self._ask(client, self._names_address, asked, {"topic": topic})

    async def _look_up_by_key(self, client: RemotingClient) -> None:
        found = some_key(self._queries, self._ledger)
        if found is None:
            return
        (topic, _), key = found
        fields = {"topic": topic, "key": key, "maxNum": "32", "beginTimestamp": "0", "endTimestamp": str(1 << 42)}
        answer = await ask(self._course, client, self._address, RequestCode.QUERY_MESSAGE, fields)
        if answer is not None and answer.code == ResponseCode.SUCCESS:  # the index follows the append
            for message in messages_of(answer):
                assert key in message.properties["KEYS"].split(), f"{message.properties} for {key}"
                offset = {"offset": str(message.commit_log_offset)}
                await self._ask(client, self._address, RequestCode.VIEW_MESSAGE_BY_ID, offset)

    # ---- configuration ----

    async def turn_knobs(self) -> None:
        dice = self._course.dice("knobs")
        async for _ in self._course.turns("changes of the configuration", 4.0, 6, until=0.95):
            key = dice.choice(sorted(LIVE_KEYS))
            await self.configure({key: dice.choice(LIVE_KEYS[key])})

    async def configure(self, keys: Mapping[str, str]) -> None:
        body = "".join(f"{key}={value}\n" for key, value in keys.items()).encode()
        async with RemotingClient() as client:
            restarts = self._course.restarts
            answer = await ask(self._course, client, self._address, RequestCode.UPDATE_BROKER_CONFIG, body=body)
            assert answer is None or answer.code == ResponseCode.SUCCESS or self._course.may_fail(restarts), f"{keys}: {answer.remark}"

    async def reset_knobs(self) -> None:
        await self.configure({key: values[0] for key, values in LIVE_KEYS.items()})

    async def make_lasting(self) -> None:
        """Every topic that stays, so that what an idle broker holds is known before the load begins."""
        async with RemotingClient() as client:
            for topic in (*LASTING_TOPICS, LOAD_TOPIC, PROBE_TOPIC):
                answer = await ask(self._course, client, self._address, RequestCode.UPDATE_AND_CREATE_TOPIC, topic_fields(topic, QUEUES))
                assert answer is not None and answer.code == ResponseCode.SUCCESS, f"{topic}: {answer}"

    async def _ask(
        self, client: RemotingClient, address: str, code: int, fields: Mapping[str, str] | None = None, body: bytes = b""
    ) -> None:
        """Answered one way or another: what with is the business of other tests."""
        await ask(self._course, client, address, code, fields, body)


def topic_fields(topic: str, queues: int) -> dict[str, str]:
    return {
        "topic": topic, "defaultTopic": "TBW102", "readQueueNums": str(queues), "writeQueueNums": str(queues), "perm": "6",
        "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
    }  # fmt: skip


def read_page(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as page:
        return str(page.read().decode())

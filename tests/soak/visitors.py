"""Clients that come and go: consumers who say goodbye or do not, and connections that nobody would make on purpose."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import socket
import struct
from collections import deque
from collections.abc import Sequence

from rocketpy._core.remoting import encode_command
from rocketpy.remoting.client import RemotingClient
from rocketpy.remoting.codes import RequestCode, ResponseCode

from .course import RESTARTS, Course
from .names import EMPTY_QUEUE, LASTING_GROUPS, LASTING_TOPICS, PROBE_TOPIC, QUEUES, TAGS, VISITOR
from .wire import ask, messages_of, pull_fields, queue_bound

HELD_MAX = 16
"""Connections that are left alone, half a request sent, until the server closes them."""
PULLS_UNREAD = 12


class Consumer:
    """One visit: a heartbeat, pulls that wait and pulls that do not, offsets, locks, and an end of one kind or another."""

    def __init__(self, course: Course, address: str, broker_name: str, number: int) -> None:
        self._course = course
        self._address = address
        self._broker_name = broker_name
        self._number = number
        self._dice = course.dice(f"consumer {number}")
        self.received = 0

    async def run(self) -> None:
        async for visit in self._course.turns("consumers' visits", 0.3, 6):
            await self._visit(str(visit), end=self._dice.random())
        if not self._course.is_long:
            await self._course.until_done("restarts", RESTARTS)
        await self._visit("last", end=1.0)  # without a goodbye: what is left of it is looked for

    async def _visit(self, name: str, end: float) -> None:
        group = self._dice.choice(LASTING_GROUPS)
        topic = self._dice.choice(LASTING_TOPICS)
        tags = self._dice.choice(("*", " || ".join(self._dice.sample(TAGS, 2))))
        async with RemotingClient(frame_size_max=64 << 20) as client:
            await self._consume(client, f"{VISITOR}{self._number}-{name}@{group}", group, topic, tags, end)

    async def _consume(self, client: RemotingClient, client_id: str, group: str, topic: str, tags: str, end: float) -> None:
        """end, from 0 to 1: how it leaves."""
        if not await self._ask(client, RequestCode.HEART_BEAT, body=heartbeat(client_id, group, {topic: tags})):
            return
        queue_id = self._dice.randrange(QUEUES)
        queue = {"topic": topic, "brokerName": self._broker_name, "queueId": queue_id}
        lock = json.dumps({"consumerGroup": group, "clientId": client_id, "mqSet": [queue]}).encode()
        place = {"consumerGroup": group, "topic": topic, "queueId": str(queue_id)}
        await self._ask(client, RequestCode.LOCK_BATCH_MQ, body=lock)
        await self._ask(client, RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group})
        await self._ask(client, RequestCode.QUERY_CONSUMER_OFFSET, {**place, "setZeroIfNotFound": "false"})
        offset = await self._read(client, group, topic, queue_id, tags)
        if offset is not None:
            await self._ask(client, RequestCode.UPDATE_CONSUMER_OFFSET, {**place, "commitOffset": str(offset)})
        if end < 0.6:
            await self._ask(client, RequestCode.UNLOCK_BATCH_MQ, body=lock)
        if end < 0.5:
            goodbye = {"clientID": client_id, "consumerGroup": group, "producerGroup": group}
            await self._ask(client, RequestCode.UNREGISTER_CLIENT, goodbye)
        elif end < 0.8:  # away while a pull of its own waits
            fields = pull_fields(group, PROBE_TOPIC, EMPTY_QUEUE, 0, tags=tags, suspend_ms=15_000)
            with contextlib.suppress(Exception):
                await client.invoke_oneway(self._address, RequestCode.PULL_MESSAGE, fields)

    async def _read(self, client: RemotingClient, group: str, topic: str, queue_id: int, tags: str) -> int | None:
        """A few pulls from somewhere in the queue; where it stands then."""
        low = await queue_bound(self._course, client, self._address, RequestCode.GET_MIN_OFFSET, topic, queue_id)
        high = await queue_bound(self._course, client, self._address, RequestCode.GET_MAX_OFFSET, topic, queue_id)
        if low is None or high is None:
            return None
        offset = self._dice.choice((low, high, self._dice.randint(low, max(low, high))))
        for _ in range(self._dice.randrange(1, 6)):
            suspend_ms = self._dice.choice((0, 200, 1000))
            fields = pull_fields(group, topic, queue_id, offset, tags=tags, commit=offset, suspend_ms=suspend_ms)
            answer = await ask(self._course, client, self._address, RequestCode.PULL_MESSAGE, fields)
            if answer is None:
                return None
            if answer.code == ResponseCode.SUCCESS:
                last = offset - 1
                for message in messages_of(answer):
                    assert message.queue_offset > last, f"{topic} {queue_id}: {message.queue_offset} behind {last}"
                    assert tags == "*" or message.properties["TAGS"] in tags, f"{message.properties} for {tags}"
                    last = message.queue_offset
                    self.received += 1
            if "nextBeginOffset" in answer.fields:
                offset = int(answer.fields["nextBeginOffset"])
        return offset

    async def _ask(self, client: RemotingClient, code: int, fields: dict[str, str] | None = None, body: bytes = b"") -> bool:
        """Whether it was answered; what is answered is the business of other tests."""
        return await ask(self._course, client, self._address, code, fields, body) is not None


def heartbeat(client_id: str, group: str, subscriptions: dict[str, str]) -> bytes:
    consumer = {
        "groupName": group, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "unitMode": False,
        "subscriptionDataSet": [
            {"topic": topic, "subString": tags, "tagsSet": [] if tags == "*" else tags.split(" || "), "codeSet": [], "subVersion": 1,
             "expressionType": "TAG", "classFilterMode": False}
            for topic, tags in subscriptions.items()
        ],
    }  # fmt: skip
    return json.dumps({"clientID": client_id, "producerDataSet": [{"groupName": group}], "consumerDataSet": [consumer]}).encode()


class Strangers:
    """Connections without manners, to every port there is. What becomes of them is only that nothing is left of them."""

    def __init__(self, course: Course, ports: Sequence[int], broker_port: int) -> None:
        self._course = course
        self._ports = ports
        self._broker_port = broker_port
        self._dice = course.dice("strangers")
        self._held: deque[socket.socket] = deque()

    async def run(self) -> None:
        kinds = (self._silent, self._garbage, self._half, self._huge, self._reset, self._waiting, self._deaf)
        try:
            async for number in self._course.turns("strange connections", 0.1, 60):
                kind = kinds[number % len(kinds)]
                port = self._broker_port if kind in (self._waiting, self._deaf) else self._dice.choice(self._ports)
                connection = socket.socket()
                connection.setblocking(False)
                try:
                    await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", port))
                    await kind(connection, self._dice)
                except OSError:  # the server is being restarted, or had enough
                    connection.close()
        finally:
            while self._held:
                self._held.popleft().close()

    async def _silent(self, connection: socket.socket, dice: random.Random) -> None:
        connection.close()

    async def _garbage(self, connection: socket.socket, dice: random.Random) -> None:
        await self._write(connection, dice.randbytes(dice.randrange(1, 5000)))
        connection.close()

    async def _half(self, connection: socket.socket, dice: random.Random) -> None:
        """Part of a request, then nothing: the server closes it for idleness, or we do much later."""
        frame = encode_command(RequestCode.GET_BROKER_RUNTIME_INFO, {}, b"x" * 500, opaque=1)
        await self._write(connection, frame[: dice.randrange(1, len(frame))])
        self._hold(connection)

    async def _huge(self, connection: socket.socket, dice: random.Random) -> None:
        await self._write(connection, struct.pack(">I", dice.choice((0x7FFFFFFF, 0xFFFFFFFF, 20 << 20))) + b"{" * 100)
        self._hold(connection)

    async def _reset(self, connection: socket.socket, dice: random.Random) -> None:
        await self._write(connection, encode_command(RequestCode.GET_BROKER_CONFIG, {}, opaque=1))
        self._abort(connection)

    async def _waiting(self, connection: socket.socket, dice: random.Random) -> None:
        """Gone while its pull waits for messages."""
        fields = pull_fields("soak-stranger", PROBE_TOPIC, EMPTY_QUEUE, 0, suspend_ms=15_000, tags=dice.choice(("*", "A || C")))
        await self._write(connection, encode_command(RequestCode.PULL_MESSAGE, fields, opaque=1))
        dice.choice((connection.close, lambda: self._abort(connection), lambda: self._hold(connection)))()

    async def _deaf(self, connection: socket.socket, dice: random.Random) -> None:
        """Asks for many messages and reads none of them."""
        frames = b"".join(
            encode_command(RequestCode.PULL_MESSAGE, pull_fields("soak-stranger", topic, queue_id, 0), opaque=number)
            for number in range(PULLS_UNREAD)
            for topic in LASTING_TOPICS[:2]
            for queue_id in range(2)
        )
        await self._write(connection, frames)
        self._hold(connection)

    async def _write(self, connection: socket.socket, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(connection, data)

    def _hold(self, connection: socket.socket) -> None:
        self._held.append(connection)
        if len(self._held) > HELD_MAX:
            self._held.popleft().close()

    def _abort(self, connection: socket.socket) -> None:
        """RST instead of FIN."""
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

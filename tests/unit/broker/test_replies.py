"""Replies to requests through a whole broker: who they find as clients come, change and go; what is made, refused and stored for them."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rocketpy._core.remoting import Command, decode_command, encode_command
from rocketpy._core.store import decode_message
from rocketpy.remoting.codes import FLAG_RESPONSE, RequestCode, ResponseCode
from rocketpy.remoting.json_codec import write_json
from tests.processes import PATIENCE_S
from tests.unit.broker.pair import pair
from tests.unit.broker.running import Peer, run, running

REPLY_TOPIC = "DefaultCluster_REPLY_TOPIC"


@dataclass
class Requester:
    """A connection that answers pushes when it is told to."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def receive(self) -> Command:
        async with asyncio.timeout(PATIENCE_S):
            head = await self.reader.readexactly(4)
            return decode_command(head + await self.reader.readexactly(struct.unpack(">I", head)[0]))

    async def ask(self, code: int, fields: dict[str, str] | None = None, body: Any = None, answered: int = 0) -> None:
        """With nothing in between."""
        self.writer.write(encode_command(code, fields, b"" if body is None else write_json(body), opaque=1))
        answer = await self.receive()
        assert answer.is_response and answer.code == answered, answer

    async def heartbeat(self, client_id: str, *groups: str) -> None:
        producers = [{"groupName": group} for group in groups]
        await self.ask(RequestCode.HEART_BEAT, {}, {"clientID": client_id, "consumerDataSet": [], "producerDataSet": producers})

    async def unregister(self, client_id: str, group: str) -> None:
        await self.ask(RequestCode.UNREGISTER_CLIENT, {"clientID": client_id, "producerGroup": group})

    async def answer_push(self, code: int = 0) -> Command:
        push = await self.receive()
        assert push.code == RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT and not push.is_response
        self.writer.write(encode_command(code, opaque=push.opaque, flag=FLAG_RESPONSE))
        return push


@asynccontextmanager
async def requester(address: str, distance: int = 0) -> AsyncIterator[Requester]:
    host, port = address.rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port) - distance)
    try:
        yield Requester(reader, writer)
    finally:
        writer.close()


async def reply(peer: Peer, client_id: str, body: bytes = b"re", topic: str = REPLY_TOPIC, properties: str = "", **fields: Any) -> Command:
    header = {"a": "p", "b": topic, "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0, "j": 0, "k": False, "m": False}
    header["i"] = f"REPLY_TO_CLIENT\x01{client_id}\x02{properties}"
    return await peer.ask(RequestCode.SEND_REPLY_MESSAGE_V2, {**header, **fields}, body)


def test_a_reply_finds_its_client_by_either_listener_until_its_last_group_is_gone(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            for distance in (0, 2):
                async with requester(at.broker.address, distance) as client:
                    await client.heartbeat("one", "p", "q")
                    for group in ("p", "q"):
                        answer, push = await asyncio.gather(reply(peer, "one"), client.answer_push())
                        assert answer.code == 0 and push.body == b"re" and push.fields["topic"] == REPLY_TOPIC
                        await client.unregister("one", group)
                    answer = await reply(peer, "one")
                    assert answer.code == ResponseCode.SYSTEM_ERROR
                    assert answer.remark == "push reply message fail, channel of <one> not found."

    run(test)


def test_a_client_that_came_back_on_another_connection_gets_its_replies_there(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            async with requester(at.broker.address) as old, requester(at.broker.address) as new:
                await old.heartbeat("one", "p")
                await new.heartbeat("one", "p")
                old.writer.close()
                await old.reader.read()
                answer, push = await asyncio.gather(reply(peer, "one"), new.answer_push())
                assert answer.code == 0 and push.body == b"re"

    run(test)


def test_an_answer_to_a_python_request_is_not_taken_for_one_to_a_push(tmp_path: Path) -> None:
    """The broker's two kinds of requests to one client, at the same time."""

    async def test() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            async with requester(at.broker.address) as client:
                await client.heartbeat("one", "p")
                subscription = {"topic": "t", "subString": "*", "subVersion": 1, "expressionType": "TAG", "tagsSet": [], "codeSet": []}
                consumer = {"groupName": "g", "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING"}
                body = {"clientID": "one", "producerDataSet": [], "consumerDataSet": [consumer | {"subscriptionDataSet": [subscription]}]}
                client.writer.write(encode_command(RequestCode.HEART_BEAT, {}, write_json(body), opaque=1))
                while not (await client.receive()).is_response:
                    pass
                info = asyncio.create_task(peer.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": "g", "clientId": "one"}))
                told = asyncio.create_task(reply(peer, "one"))
                asked: dict[int, Command] = {}
                while len(asked) < 2:
                    command = await client.receive()
                    if command.code != RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
                        asked[command.code] = command
                opaques = {code: command.opaque for code, command in asked.items()}
                assert opaques[RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT] >= 1 << 30 > opaques[RequestCode.GET_CONSUMER_RUNNING_INFO]
                for code, content in ((RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, b""), (RequestCode.GET_CONSUMER_RUNNING_INFO, b"{}")):
                    client.writer.write(encode_command(0, None, content, opaque=opaques[code], flag=FLAG_RESPONSE))
                assert (await told).code == 0 and (await info).body == b"{}"

    run(test)


def test_a_topic_is_made_for_a_reply_and_its_message_can_be_pulled(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            async with requester(at.broker.address) as client:
                await client.heartbeat("one", "p")
                answer, _ = await asyncio.gather(reply(peer, "one", b"kept", "new"), client.answer_push())
                assert answer.code == 0 and answer.fields["queueOffset"] == "0" and len(answer.fields["msgId"]) == 32
                await peer.heartbeat("two", "g", "new")
                found = await peer.pull("g", "new")
                assert found.code == 0
                message = decode_message(found.body)
                assert (message.topic, message.body) == ("new", b"kept")
                assert message.properties["REPLY_TO_CLIENT"] == "one" and "PUSH_REPLY_TIME" not in message.properties

    run(test)


@pytest.mark.parametrize(
    ("topic", "properties", "code", "words"),
    [
        ("bad topic", "", ResponseCode.INVALID_PARAMETER, "illegal characters"),
        ("SCHEDULE_TOPIC_XXXX", "", ResponseCode.NO_PERMISSION, "is forbidden"),
        (REPLY_TOPIC, "DELAY\x013", ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "delayed replies"),
    ],
)
def test_a_reply_is_refused_where_a_send_is(tmp_path: Path, topic: str, properties: str, code: int, words: str) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            async with requester(at.broker.address) as client:
                await client.heartbeat("one", "p")
                answer = await reply(peer, "one", topic=topic, properties=properties)
                assert answer.code == code and words in (answer.remark or "")
                answer, push = await asyncio.gather(reply(peer, "one", b"the only one"), client.answer_push())
                assert answer.code == 0 and push.body == b"the only one"

    run(test)


def test_replies_are_not_stored_when_the_configuration_says_so(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, storeReplyMessageEnable="false") as at:
            peer = at.peer()
            async with requester(at.broker.address) as client:
                await client.heartbeat("one", "p")
                answer, _ = await asyncio.gather(reply(peer, "one"), client.answer_push())
                assert answer.code == 0 and (answer.fields["msgId"], answer.fields["queueOffset"]) == ("0", "0")
                assert (await peer.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, b"storeReplyMessageEnable=true\n")).code == 0
                answer, _ = await asyncio.gather(reply(peer, "one"), client.answer_push())
                assert len(answer.fields["msgId"]) == 32 and answer.fields["queueOffset"] == "0", "the first that was stored"
                stats = at.broker.parts.native.stats()  # type: ignore[union-attr]
                assert (stats["replies"], stats["replies_failed"], stats["replies_pending_now"]) == (2, 0, 0)

    run(test)


def test_a_slave_pushes_and_stores_nothing(tmp_path: Path) -> None:
    """As RocketMQ's: clients that only produce do not connect to slaves, whoever consumes there may well ask."""

    async def test() -> None:
        async with pair(tmp_path) as both, requester(both.slave.address) as client:
            await client.heartbeat("one", "p")
            answer, push = await asyncio.gather(reply(both.slave, "one"), client.answer_push())
            assert answer.code == 0 and answer.fields["msgId"] == "0" and push.body == b"re"

    run(test)


@pytest.mark.parametrize(("client_id", "answered"), [("", 0), ("x" * 1025, ResponseCode.INVALID_PARAMETER), ("\ud800", 0)])
def test_an_odd_client_id_harms_nobody(tmp_path: Path, client_id: str, answered: int) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            peer = at.peer()
            async with requester(at.broker.address) as client:
                await client.ask(
                    RequestCode.HEART_BEAT,
                    {},
                    {
                        "clientID": client_id.encode("utf-8", "replace").decode(),
                        "consumerDataSet": [],
                        "producerDataSet": [{"groupName": "p"}],
                    },
                    answered,
                )
                answer = await reply(peer, "x" * 1025)
                assert answer.code == ResponseCode.SYSTEM_ERROR and "not found" in (answer.remark or "")
                await client.heartbeat("one", "p")
                answer, _ = await asyncio.gather(reply(peer, "one"), client.answer_push())
                assert answer.code == 0

    run(test)

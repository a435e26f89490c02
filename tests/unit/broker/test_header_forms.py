"""JSON headers byte by byte: what clients in other languages and of other years write, and what they can read."""

from __future__ import annotations

import asyncio
import json
import struct
from pathlib import Path
from typing import Any

import pytest

from rocketpy.remoting.codes import RequestCode
from tests.processes import PATIENCE_S
from tests.unit.broker.running import Running, run, running

SEND = {
    "producerGroup": "p", "topic": "TBW102", "defaultTopic": "TBW102", "defaultTopicQueueNums": "4", "queueId": "0", "sysFlag": "0",
    "bornTimestamp": "1", "flag": "0", "properties": "", "reconsumeTimes": "0", "unitMode": "false",
}  # fmt: skip
PULL = {
    "consumerGroup": "g", "topic": "TBW102", "queueId": "0", "queueOffset": "0", "maxMsgNums": "1", "sysFlag": "4", "commitOffset": "0",
    "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0",
}  # fmt: skip
QUEUE = {"topic": "TBW102", "queueId": "0", "consumerGroup": "g"}


async def answer_to(at: Running, header: bytes, body: bytes = b"") -> bytes:
    """The header of the answer as it came."""
    host, _, port = at.broker.address.rpartition(":")
    async with asyncio.timeout(PATIENCE_S):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(struct.pack(">II", 4 + len(header) + len(body), len(header)) + header + body)
        size, marked = struct.unpack(">II", await reader.readexactly(8))
        frame = await reader.readexactly(size - 4)
        writer.close()
    assert marked >> 24 == 0, "JSON is answered in JSON"
    return frame[: marked & 0xFFFFFF]


def header(code: int, fields: dict[str, Any], **members: Any) -> bytes:
    return json.dumps({"code": code, "language": "JAVA", "version": 63, "opaque": 5, "flag": 0, "extFields": fields, **members}).encode()


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        (RequestCode.SEND_MESSAGE, SEND),
        (RequestCode.SEND_MESSAGE, {**SEND, "topic": "%LMQ%x"}),
        (RequestCode.PULL_MESSAGE, PULL),
        (RequestCode.PULL_MESSAGE, {**PULL, "queueOffset": "9"}),
        (RequestCode.PULL_MESSAGE, {**PULL, "topic": "unknown"}),
        (RequestCode.UPDATE_CONSUMER_OFFSET, {**QUEUE, "commitOffset": "0"}),
        (RequestCode.QUERY_CONSUMER_OFFSET, QUEUE),
        (RequestCode.GET_MAX_OFFSET, QUEUE),
        (RequestCode.GET_MIN_OFFSET, QUEUE),
        (RequestCode.GET_EARLIEST_MSG_STORETIME, QUEUE),
        (RequestCode.GET_BROKER_RUNTIME_INFO, {}),
    ],
)
def test_answers_hold_no_blank_between_their_members(tmp_path: Path, code: int, fields: dict[str, Any]) -> None:
    """fastjson 1.2.3, in Java clients of 3.2, gives up at `"code":0 ,`: such a client waits for its time-out."""

    async def test() -> None:
        async with running(tmp_path) as at:
            await answer_to(at, header(RequestCode.SEND_MESSAGE, SEND), b"x")
            answer = await answer_to(at, header(code, fields), b"x" if code == RequestCode.SEND_MESSAGE else b"")
            value = json.loads(answer)
            assert value["opaque"] == 5
            compact = {json.dumps(value[name], ensure_ascii=False, separators=(",", ":")) for name in value}
            assert all(each.encode() in answer for each in compact) and len(answer) == len(json.dumps(value, separators=(",", ":")))

    run(test)


def test_a_send_is_understood_in_every_form_that_rocketmq_understands(tmp_path: Path) -> None:
    forms = {
        "spread out": json.dumps(json.loads(header(10, SEND)), indent=2).encode() + b"\n",
        "numbers for texts": header(10, {**SEND, "queueId": 0, "sysFlag": 0, "bornTimestamp": 1700000000000, "unitMode": False}),
        "texts for numbers": header("10", SEND, opaque="5", version="63", flag="0"),  # type: ignore[arg-type]
        "null fields": header(10, {**SEND, "maxReconsumeTimes": None, "x": None}, remark=None),
        "the getters of an old Java client": header(10, SEND, customHeader={"topic": "other", "list": [1, {"a": None}]}, oneWayRPC=False),
        "fields that are no texts": header(10, {**SEND, "map": {"a": "b"}, "list": [1, 2]}),
        "escapes": header(10, SEND).replace(b'"TBW102"', b'"\\u0054BW102"').replace(b'"p"', b'"\\u4e2d\\ud83d\\ude00\\/\\b"'),
        "a language nobody knows": header(10, SEND, language="KOTLIN"),
        "a language by its number": header(10, SEND, language=5),
        "no language": header(10, SEND, language=None),
        "a version of tomorrow": header(10, SEND, version=99999),
        "no members but those needed": json.dumps({"code": 10, "opaque": 5, "extFields": SEND}).encode(),
        "signed": header(10, {"AccessKey": "rocketmq2", "Signature": "Zm9v+/==", "SecurityToken": "", "OnsChannel": "ALIYUN", **SEND}),
    }

    async def test() -> None:
        async with running(tmp_path) as at:
            for offset, (form, sent) in enumerate(forms.items()):
                value = json.loads(await answer_to(at, sent, b"x"))
                assert (value["code"], value["opaque"], value["extFields"].get("queueOffset")) == (0, 5, str(offset)), (form, value)

    run(test)

"""A consumer in POP mode in a few lines: raw requests, and the handles of messages as RocketMQ's client makes them (ExtraInfoUtil)."""

from __future__ import annotations

import base64
import json
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.processes import PATIENCE_S

from . import wire
from .stored import Record, parse

POP, ACK, PEEK, CHANGE, NOTIFY, POLLING, BATCH_ACK = 200050, 200051, 200052, 200053, 200054, 200055, 200151
SET_MODE, ASSIGNMENT = 401, 400
POLLING_FULL, POLLING_TIMEOUT = 209, 210
ORDER_QUEUE = 999


def revive_topic(cluster: str = "DefaultCluster") -> str:
    return f"rmq_sys_REVIVE_LOG_{cluster}"


@dataclass(frozen=True, slots=True)
class Popped:
    """A message that its consumer has, and the handle by which it says what became of it."""

    record: Record
    handle: str
    times: int
    """How often it was consumed before."""

    @property
    def body(self) -> str:
        return self.record.body.decode()

    @property
    def kind(self) -> str:
        """ "0"; "1" and "2" of a message that comes again, by the name of its retry topic."""
        return self.handle.split(" ")[4]


def handles(reply: wire.Reply, broker: str = "broker-a") -> list[Popped]:
    """The messages of an answer."""
    starts = _by_queue(reply.fields.get("startOffsetInfo"))
    listed = _by_queue(reply.fields.get("msgOffsetInfo"))
    counts = _by_queue(reply.fields.get("orderCountInfo"))
    head = [reply.fields["popTime"], reply.fields["invisibleTime"], reply.fields["reviveQid"]]
    found = []
    for record in parse(reply.body):
        queue = str(record.queue_id)
        handle = record.pairs.get("POP_CK")
        if handle is None:
            kind = "0" if not record.topic.startswith("%RETRY%") else "2" if "+" in record.topic else "1"
            assert str(record.queue_offset) in listed[kind, queue].split(","), (record.queue_offset, reply.fields)
            handle = " ".join([starts[kind, queue], *head, kind, broker, queue, str(record.queue_offset)])
        times = counts.get((handle.split(" ")[4], f"qo{queue}%{record.queue_offset}"), counts.get((handle.split(" ")[4], queue)))
        found.append(Popped(record, handle, record.reconsume_times if times is None else int(times)))
    return found


def _by_queue(text: str | None) -> dict[tuple[str, str], str]:
    rows = [part.split(" ") for part in (text or "").split(";") if part]
    assert len({(kind, queue) for kind, queue, _ in rows}) == len(rows), f"a queue is there twice: {text}"
    return {(kind, queue): value for kind, queue, value in rows}


class Popper:
    """Pops one topic for one group, on a connection of its own for each request."""

    def __init__(self, address: str, group: str, topic: str, broker: str = "broker-a") -> None:
        self.address, self.group, self.topic, self.broker = address, group, topic, broker

    def fields(self, **changes: Any) -> dict[str, str]:
        """The fields of a pop request, with changes; None leaves a field out."""
        fields = {
            "consumerGroup": self.group, "topic": self.topic, "queueId": -1, "maxMsgNums": 32, "invisibleTime": 60_000, "pollTime": 0,
            "bornTime": int(time.time() * 1000), "initMode": 0, "expType": "TAG", "exp": "*", "order": "false", **changes,
        }  # fmt: skip
        return {name: str(value) for name, value in fields.items() if value is not None}

    def ask(self, code: int, fields: dict[str, str], body: bytes = b"") -> wire.Reply:
        return wire.call(self.address, code, fields, body)

    def pop(self, **changes: Any) -> list[Popped]:
        """What there is; [] when that is nothing. Keywords are fields of the request."""
        reply = self.ask(POP, self.fields(**changes))
        if reply.code == POLLING_TIMEOUT:
            return []
        assert reply.code == 0, reply
        return handles(reply, self.broker)

    def pop_until(self, count: int, timeout: float = PATIENCE_S, **changes: Any) -> list[Popped]:
        """Pops, with long polling, until `count` messages have come."""
        found: list[Popped] = []
        end = time.monotonic() + timeout
        while len(found) < count:
            assert time.monotonic() < end, f"{len(found)} of {count} messages came: {[each.body for each in found]}"
            found += self.pop(**{"pollTime": 3000, **changes})
        return found

    def begin(self, code: int = POP, **changes: Any) -> socket.socket:
        """Sends a request without waiting for the answer, which wire.read_reply reads from the connection."""
        host, port = self.address.rsplit(":", 1)
        connection = socket.create_connection((host, int(port)), PATIENCE_S)
        connection.sendall(wire.encode(code, self.fields(**changes)))
        return connection

    def topic_of(self, handle: str) -> str:
        separator = {"1": "_", "2": "+"}.get(handle.split(" ")[4])
        return self.topic if separator is None else f"%RETRY%{self.group}{separator}{self.topic}"

    def handle_fields(self, popped: Popped) -> dict[str, str]:
        return {
            "consumerGroup": self.group, "topic": self.topic_of(popped.handle), "queueId": popped.handle.split(" ")[6],
            "extraInfo": popped.handle, "offset": str(popped.record.queue_offset),
        }  # fmt: skip

    def ack(self, *popped: Popped) -> None:
        for each in popped:
            reply = self.ask(ACK, self.handle_fields(each))
            assert reply.code == 0, reply

    def batch(self, popped: Sequence[Popped]) -> bytes:
        """The body that acks all of them."""
        bits: dict[tuple[str, ...], int] = {}
        for each in popped:
            start, *rest = each.handle.split(" ")[:7]
            key = (start, *rest)
            bits[key] = bits.get(key, 0) | 1 << each.record.queue_offset - int(start)
        acks = [
            {
                "b": base64.b64encode(mask.to_bytes((mask.bit_length() + 7) // 8, "little")).decode(), "c": self.group,
                "it": int(invisible), "pt": int(pop_time), "q": int(queue), "r": kind, "rq": int(revive), "so": int(start),
                "t": self.topic,
            }
            for (start, pop_time, invisible, revive, kind, _, queue), mask in bits.items()
        ]  # fmt: skip
        return json.dumps({"acks": acks, "brokerName": self.broker}).encode()

    def batch_ack(self, popped: Sequence[Popped]) -> None:
        reply = self.ask(BATCH_ACK, {}, self.batch(popped))
        assert reply.code == 0, reply

    def change(self, popped: Popped, invisible_ms: int) -> Popped:
        """Changes the time at which the message comes again; returns it with its new handle."""
        reply = self.ask(CHANGE, {**self.handle_fields(popped), "invisibleTime": str(invisible_ms)})
        assert reply.code == 0, reply
        _, _, _, _, kind, broker, queue, *_ = popped.handle.split(" ")
        offset = str(popped.record.queue_offset)
        head = [offset, reply.fields["popTime"], reply.fields["invisibleTime"], reply.fields["reviveQid"]]
        return replace(popped, handle=" ".join([*head, kind, broker, queue, offset]))

    def notify(self, **changes: Any) -> dict[str, str]:
        fields = self.fields(**changes)
        reply = self.ask(NOTIFY, fields)
        assert reply.code == 0, reply
        return reply.fields

    def peek(self, **changes: Any) -> wire.Reply:
        return self.ask(PEEK, self.fields(**changes))

    def waiting(self, queue_id: int = -1) -> int:
        """How many pops of that queue id wait at the broker."""
        reply = self.ask(POLLING, self.fields(queueId=queue_id))
        assert reply.code == 0, reply
        return int(reply.fields["pollingNum"])

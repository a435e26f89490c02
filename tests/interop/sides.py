"""One request to two products, and what each answers and stores for it."""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass, field
from typing import Any

from tests.processes import PATIENCE_S, wait_until

from . import wire
from .products import Cluster
from .stored import Record, queue_end, records


@dataclass(frozen=True)
class Case:
    """One request. `level`: in whose queue it is stored, 0 for none; `target`: where it is delivered."""

    what: str
    code: int
    fields: dict[str, str]
    level: int = 0
    target: tuple[str, int] = ("", 0)
    body: bytes = b""
    version: int = 501


@dataclass
class Side:
    """One product with what it answered."""

    cluster: Cluster
    positions: dict[str, int] = field(default_factory=dict)
    """Physical offsets of messages that were there to be consumed, by body."""

    @property
    def address(self) -> str:
        return self.cluster.broker.address

    def ask(self, case: Case) -> Any:
        host, port = self.address.rsplit(":", 1)
        with socket.create_connection((host, int(port)), PATIENCE_S) as connection:
            connection.sendall(wire.encode(case.code, case.fields, case.body, version=case.version))
            reply = wire.read_reply(connection)
        fields = {name: re.sub(r"[0-9A-F]{32}", "ID", value) for name, value in reply.fields.items()}
        return reply.code, evened(reply.remark or ""), fields

    def table(self, topic: str, queue_id: int, count: int) -> list[Record]:
        wait_until(lambda: queue_end(self.address, topic, queue_id) >= count, 2 * PATIENCE_S, f"{count} messages in {topic} {queue_id}")
        found = records(self.address, topic, queue_id)
        assert len(found) == count, [each.body for each in found]
        return found


def evened(text: str) -> str:
    return re.sub(r"127\.0\.0\.1(:\d+)?", "ADDRESS", text)


def same(ours: list[Record], theirs: list[Record]) -> None:
    for our, their in zip(ours, theirs, strict=True):
        assert our.evened() == their.evened(), (our.body, our.evened(), their.evened())

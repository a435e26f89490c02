"""Where the checkpoints went of what an acting slave gave out: their acks have to go to the same revive queue of the same master.
RocketMQ: EscapeBridge.asyncRemotePutMessageToSpecificQueue (5.5.0 broker/failover/), which goes by a hash of its own address over all
queues: when brokers come or go, acks go elsewhere.

    checkpoint ─ any master that has the popped topic ─ noted ─► ack ─ the same, or none ─ not noted: as a checkpoint would go now

Threads  none: decisions only. Bounds: NOTED_MAX checkpoints, the oldest are forgotten: what was acked of them may come once more.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from .._core.results import Message
from ..remoting.json_codec import read_json
from . import names
from .escaping_messages import Master
from .json_members import integer_member, text_member

NOTED_MAX: Final = 100_000
WHAT: Final = "record of the revive topic"


@dataclass(frozen=True, slots=True)
class PopRecord:
    """What a checkpoint and its acks have in common. topic: that was popped, or its retry topic."""

    topic: str
    group: str
    queue_id: int
    start_offset: int
    pop_time_ms: int
    is_checkpoint: bool

    @staticmethod
    def read(message: Message) -> PopRecord:
        """Raises ValueError."""
        text = read_json(message.body)
        if not isinstance(text, dict):
            raise ValueError(f"the {WHAT} is no JSON object")
        return PopRecord(
            topic=text_member(text, "t", None, WHAT),
            group=text_member(text, "c", None, WHAT),
            queue_id=integer_member(text, "q", None, WHAT),
            start_offset=integer_member(text, "so", None, WHAT),
            pop_time_ms=integer_member(text, "pt", None, WHAT),
            is_checkpoint=message.properties.get("TAGS") == "ck",
        )

    @property
    def popped_topic(self) -> str:
        """The topic that consumers name."""
        for retry in names.pop_retry_topics("", self.group):
            if self.topic.startswith(retry):
                return self.topic.removeprefix(retry)
        return self.topic

    @property
    def key(self) -> tuple[str, str, int, int, int]:
        return self.topic, self.group, self.queue_id, self.start_offset, self.pop_time_ms


class NotThere(Exception):
    """Nobody else has a use for the ack."""


class EscapedCheckpoints:
    """By what an ack says of its pop."""

    def __init__(self) -> None:
        self._places: OrderedDict[tuple[str, str, int, int, int], tuple[str, int]] = OrderedDict()

    def note(self, record: PopRecord, place: tuple[Master, int]) -> None:
        """A master has it."""
        if not record.is_checkpoint:
            return
        self._places[record.key] = place[0].broker_name, place[1]
        if len(self._places) > NOTED_MAX:
            self._places.popitem(last=False)

    def place_of(self, record: PopRecord, masters: Iterable[Master]) -> tuple[Master, int] | None:
        """Of an ack whose checkpoint was noted; None: of others. Raises NotThere."""
        noted = None if record.is_checkpoint else self._places.get(record.key)
        if noted is None:
            return None
        name, queue_id = noted
        for master in masters:
            if master.broker_name == name:
                return master, queue_id
        raise NotThere(f"master {name}, which has the checkpoint, is not there")

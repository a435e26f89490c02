"""Receipt handles: they name a message and the pop that delivered it. The text is that of RocketMQ's clients.
RocketMQ: ReceiptHandle, ExtraInfoUtil, MQClientAPIImpl.processPopResponse (5.3.3 common/, remoting/, client/).

    START_OFFSET POP_TIME INVISIBLE_MS REVIVE_QUEUE KIND BROKER QUEUE OFFSET [LOG_OFFSET]

KIND is 0 for a message that was read from its own topic; 1 and 2 are the two ways to name a retry topic. Only the proxy writes the last
part: where the message lies in its broker's log, which the dead letter queue needs.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from .._core.errors import ProtocolError
from .._core.results import Message
from ..broker.names import RETRY_PREFIX
from ..remoting.records import place_id
from .status import ProxyError

log = logging.getLogger(__name__)

TEXT_MAX: Final = 512
SHOWN_MAX: Final = 100
_NUMBER: Final = r"(-?[0-9]{1,18})"
_TEXT: Final = re.compile(
    rf"{_NUMBER} {_NUMBER} {_NUMBER} {_NUMBER} ([012]) ([%|a-zA-Z0-9._-]{{1,255}}) {_NUMBER} {_NUMBER}(?: {_NUMBER})?"
)
_OFFSET: Final = re.compile("[0-9]{1,18}")
_TIMES: Final = re.compile("[0-9]{1,9}")
_BLANKS: Final = " \t\n\v\f\r\x1c\x1d\x1e\x1f"


@dataclass(frozen=True, slots=True)
class ReceiptHandle:
    """A parsed receipt handle. Times are in ms; log_offset is -1 if it is not known."""

    start_offset: int
    pop_ms: int
    invisible_ms: int
    revive_queue: int
    kind: str
    broker: str
    queue_id: int
    offset: int
    log_offset: int = -1

    @property
    def text(self) -> str:
        parts = [self.start_offset, self.pop_ms, self.invisible_ms, self.revive_queue, self.kind, self.broker, self.queue_id, self.offset]
        return " ".join(str(part) for part in (parts if self.log_offset < 0 else [*parts, self.log_offset]))

    @property
    def visible_ms(self) -> int:
        """When the message becomes visible again."""
        return self.pop_ms + self.invisible_ms

    def real_topic(self, topic: str, group: str) -> str:
        """The topic that the message was popped from; for a retry this is the group's retry topic."""
        return {"1": f"{RETRY_PREFIX}{group}_{topic}", "2": f"{RETRY_PREFIX}{group}+{topic}"}.get(self.kind, topic)

    def popped_again(self, pop_ms: int, invisible_ms: int, revive_queue: int) -> ReceiptHandle:
        """The handle that a broker has made of this one when the invisible time was changed."""
        return replace(self, start_offset=self.offset, pop_ms=pop_ms, invisible_ms=invisible_ms, revive_queue=revive_queue)

    @classmethod
    def parse(cls, text: str) -> ReceiptHandle:
        """Raises ProxyError INVALID_RECEIPT_HANDLE."""
        found = _TEXT.fullmatch(text) if len(text) <= TEXT_MAX else None
        if found is None:
            raise ProxyError("INVALID_RECEIPT_HANDLE", f"receipt handle {text[:SHOWN_MAX]!r} is none")
        start, pop_ms, invisible_ms, revive, kind, broker, queue_id, offset, log_offset = found.groups()
        return cls(int(start), int(pop_ms), int(invisible_ms), int(revive), kind, broker, int(queue_id), int(offset), int(log_offset or -1))

    @classmethod
    def written(cls, text: str) -> ReceiptHandle | None:
        """The handle that a broker has written on a message; None for anything else, because a producer may write there, too."""
        try:
            found = cls.parse(text)
        except ProxyError:
            return None
        return found if found.text == text else None

    def check_valid(self, now_ms: int) -> ReceiptHandle:
        """Returns the handle. Raises ProxyError if the message may have been given to somebody else by now."""
        if self.visible_ms <= now_ms:
            raise ProxyError("INVALID_RECEIPT_HANDLE", "receipt handle is expired")
        return self


def message_id_of(message: Message) -> str:
    """The id that the producer gave the message; if it is missing or blank, one made of where the message is stored. RocketMQ:
    ConsumerProcessor.fillUniqIDIfNeed."""
    name = message.properties.get("UNIQ_KEY", "")
    return name if name.strip(_BLANKS) else place_id(message.store_host, message.commit_log_offset)


@dataclass(frozen=True, slots=True)
class Popped:
    """A message, and the handle that the client refers to it by."""

    message: Message
    handle: ReceiptHandle
    lite_topic: str = ""
    """Of a lite consumer's: where it was popped from."""

    @property
    def message_id(self) -> str:
        return message_id_of(self.message)


def _by_queue(text: str | None) -> dict[tuple[str, str], str]:
    """Splits "KIND QUEUE VALUE;…": the values by kind and queue."""
    rows = (part.split(" ") for part in (text or "").split(";") if part)
    return {(row[0], row[1]): row[2] for row in rows if len(row) == 3}


def _kind(topic: str) -> str:
    return "0" if not topic.startswith(RETRY_PREFIX) else "2" if "+" in topic else "1"


def popped(fields: Mapping[str, str], messages: Iterable[Message], broker: str, topic: str) -> list[Popped]:
    """The messages of a broker's answer to a pop of `topic`. Raises ProtocolError."""
    starts, counts = _by_queue(fields.get("startOffsetInfo")), _by_queue(fields.get("orderCountInfo"))
    found = []
    try:
        pop_ms, invisible_ms, revive = int(fields["popTime"]), int(fields["invisibleTime"]), int(fields["reviveQid"])
        for message in messages:
            queue, kind = str(message.queue_id), _kind(message.topic)
            known = ReceiptHandle.written(message.properties.get("POP_CK", ""))
            if known is not None:
                handle = replace(known, log_offset=message.commit_log_offset)
            else:
                start = int(starts.get((kind, queue), message.queue_offset))
                handle = ReceiptHandle(
                    start, pop_ms, invisible_ms, revive, kind, broker, message.queue_id, message.queue_offset, message.commit_log_offset
                )
            times = int(counts.get((kind, f"qo{queue}%{message.queue_offset}"), counts.get((kind, queue), 0)))
            found.append(Popped(message._replace(topic=topic, reconsume_times=times or message.reconsume_times), handle))
    except (KeyError, ValueError) as error:
        raise ProtocolError(f"{broker} answered a pop with fields that cannot be read: {error!r}") from error
    return found


def lite_place(properties: Mapping[str, str], topic: str) -> tuple[str, int] | None:
    """(lite topic, offset in it) of a message of `topic`. None if it is in no lite topic, or in several without saying which one it was
    sent to."""
    prefix = f"%LMQ%${topic}$"
    queues, offsets = (properties.get(name, "").split(",") for name in ("INNER_MULTI_DISPATCH", "INNER_MULTI_QUEUE_OFFSET"))
    places = {queue.removeprefix(prefix): offset for queue, offset in zip(queues, offsets, strict=False) if queue.startswith(prefix)}
    name = properties.get("__LITE_TOPIC", "")
    if name not in places and len(places) == 1:
        name = next(iter(places))
    offset = places.get(name, "")
    return (name, int(offset)) if len(queues) == len(offsets) and _OFFSET.fullmatch(offset) else None


def popped_lite(fields: Mapping[str, str], messages: Iterable[Message], broker: str, topic: str) -> list[Popped]:
    """The messages of a broker's answer to a pop of lite topics of `topic`. A message that could not be acknowledged is left out, and comes
    again. Raises ProtocolError. RocketMQ: MQClientAPIImpl.processPopLiteResponse, ExtraInfoUtil.parseLiteOrderCountInfo (5.5.0)."""
    messages = list(messages)
    counts = (fields.get("orderCountInfo") or "").split(";")
    try:
        pop_ms, invisible_ms, revive = int(fields["popTime"]), int(fields["invisibleTime"]), int(fields["reviveQid"])
    except (KeyError, ValueError) as error:
        raise ProtocolError(f"{broker} answered a pop with fields that cannot be read: {error!r}") from error
    found = []
    for at, message in enumerate(messages):
        if (place := lite_place(message.properties, topic)) is None:
            log.warning("%s gave a message of %s at %d that is in no lite topic", broker, topic, message.commit_log_offset)
            continue
        lite_topic, offset = place
        handle = ReceiptHandle(0, pop_ms, invisible_ms, revive, "0", broker, 0, offset, message.commit_log_offset)
        times = _lite_times(counts[at]) if len(counts) == len(messages) else 0
        found.append(Popped(message._replace(topic=topic, queue_offset=offset, reconsume_times=times), handle, lite_topic))
    return found


def _lite_times(text: str) -> int:
    """The number in "TIMES" or "KIND qoQUEUE%OFFSET TIMES"; 0 if there is none."""
    last = text.rpartition(" ")[2]
    return int(last) if _TIMES.fullmatch(last) else 0

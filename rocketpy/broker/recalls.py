"""Timed messages that are taken back before they are due.
RocketMQ: RecallMessageProcessor, RecallMessageHandle (5.3.3 broker/processor/, common/producer/).

    RECALL_MESSAGE ─ handle ─ topic, broker, time ─ native: stored for the slot of its message ─ on disk, at slaves ─ answer

A handle is the text that the sender got with its answer: "v1", topic, brokerName, time and unique key, joined by blanks, in URL-safe
base 64.

Threads  one event loop. The recall is appended in a thread, since an append may have to wait; waiting for the disk and the slaves
         afterwards takes no thread.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import functools
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from .._core.errors import InvalidArgument, RocketpyError, TimedOut
from .._core.remoting import Request
from ..remoting.codes import RequestCode, ResponseCode
from ..remoting.command import Response
from ..remoting.headers import RecallMessageRequestHeader, RecallMessageResponseHeader
from . import names
from .parts import HandlerTable, Parts, now_ms
from .retries import OVERLOADED, PATIENCE_S

log = logging.getLogger(__name__)

VERSION: Final = "v1"
FIELDS: Final = 5
LOOK_AGAIN_S: Final = 0.003
"""While the disk or a slave is waited for."""
_ALPHABET: Final = re.compile(r"[A-Za-z0-9_-]*={0,2}")
_LONG: Final = re.compile(r"[+-]?[0-9]{1,19}")
_INVALID: Final = "recall handle is invalid"
_UNAVAILABLE: Final = "recall failed, broker service not available"


@dataclass(frozen=True, slots=True)
class RecallHandle:
    """A recall handle: which delayed message is to be cancelled."""

    topic: str
    broker_name: str
    deliver_ms: int
    """-1 where it is not a number."""
    unique_key: str

    @staticmethod
    def decode(text: str | None) -> RecallHandle | None:
        """The handle in a text; None if the text is not one."""
        if not text or not _ALPHABET.fullmatch(text):
            return None
        try:
            raw = base64.urlsafe_b64decode(text if text.endswith("=") else text + "=" * (-len(text) % 4))
        except (binascii.Error, ValueError):
            return None
        version, *items = raw.decode("utf-8", "replace").rstrip(" ").split(" ")
        if version != VERSION or len(items) < FIELDS - 1 or not items[3] or _is_unsafe(items[3]):
            return None
        return RecallHandle(items[0], items[1], int(items[2]) if _LONG.fullmatch(items[2]) else -1, items[3])


class RecallRequests:
    """The handler of RECALL_MESSAGE."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def handlers(self) -> HandlerTable:
        return {RequestCode.RECALL_MESSAGE: self._recall}

    async def _recall(self, request: Request) -> Response:
        header = RecallMessageRequestHeader.decode(request.fields)
        code, text = self._refusal(header.topic) or await self._put(header, request.remote_address)
        region = {"MSG_REGION": self._parts.settings.region_id}
        if code != ResponseCode.SUCCESS:
            return Response(code, text, fields=region)
        return Response(fields={**region, **RecallMessageResponseHeader(msg_id=text).encode()})

    def _refusal(self, topic: str) -> tuple[int, str] | None:
        """Why this broker recalls nothing at the moment."""
        parts, settings = self._parts, self._parts.settings
        if not settings.recall_enable:
            return ResponseCode.NO_PERMISSION, "recall failed, operation is forbidden"
        if settings.is_slave:
            return ResponseCode.SLAVE_NOT_AVAILABLE, _UNAVAILABLE
        is_writable = settings.permission & names.PERM_WRITE or settings.recall_when_read_only
        if now_ms() < settings.accept_after_ms or not is_writable:
            return ResponseCode.SERVICE_NOT_AVAILABLE, _UNAVAILABLE
        if topic not in parts.topics:
            return ResponseCode.TOPIC_NOT_EXIST, f"recall failed, the topic[{topic}] not exist"
        return None

    async def _put(self, header: RecallMessageRequestHeader, sender: str) -> tuple[int, str]:
        """(code, remark), or (SUCCESS, unique key of what is recalled)."""
        parts = self._parts
        handle, group = RecallHandle.decode(header.recall_handle), header.producer_group or ""
        if handle is None or _is_unsafe(group):
            return ResponseCode.ILLEGAL_OPERATION, _INVALID
        if handle.topic != header.topic:
            return ResponseCode.ILLEGAL_OPERATION, "recall failed, topic not match"
        if handle.broker_name != parts.settings.broker_name:
            return ResponseCode.ILLEGAL_OPERATION, _UNAVAILABLE
        if not 0 < handle.deliver_ms - now_ms() < parts.settings.timer_delay_max_ms:
            return ResponseCode.ILLEGAL_OPERATION, "recall failed, timestamp invalid"
        put = functools.partial(
            parts.native.put_recall,
            handle.topic,
            handle.unique_key,
            group,
            handle.deliver_ms,
            sender,
            names_topic=parts.settings.recall_names_topic,
        )
        try:
            end = await parts.copies.run(lambda _: put(), PATIENCE_S)
        except TimeoutError as error:
            if isinstance(error, TimedOut):  # no majority of a DLedger group has it
                return ResponseCode.SYSTEM_ERROR, "recall failed, execute error"
            return ResponseCode.SYSTEM_BUSY, OVERLOADED
        except RocketpyError as error:
            if isinstance(error, InvalidArgument) and handle.deliver_ms <= now_ms():  # by now
                return ResponseCode.ILLEGAL_OPERATION, "recall failed, timestamp invalid"
            log.warning("recall of %s of topic %s by %s is not stored: %s", handle.unique_key, handle.topic, sender, error)
            return ResponseCode.SYSTEM_ERROR, "recall failed, execute error"
        await self._wait_safe(end)
        return ResponseCode.SUCCESS, handle.unique_key

    async def _wait_safe(self, end: int) -> None:
        """Until the log is on disk (SYNC_FLUSH) and at as many slaves as there have to be (SYNC_MASTER) up to `end`, or what waits for
        that no longer: as from RocketMQ the answer is the same then."""
        config, ha = self._parts.config, self._parts.ha
        if config.text("flushDiskType") == "SYNC_FLUSH":
            await _until(lambda: self._parts.store.stats()["flushed_offset"] >= end, config.integer("syncFlushTimeout"))
        if ha.settings.slave_acks:
            await _until(lambda: ha.slaves_with(end) >= ha.settings.slave_acks, config.integer("slaveTimeout"))


async def _until(holds: Callable[[], bool], timeout_ms: int) -> None:
    """Looks again and again, no longer than that."""
    loop = asyncio.get_running_loop()
    end_s = loop.time() + timeout_ms / 1000
    while not holds():
        if loop.time() >= end_s:
            return
        await asyncio.sleep(LOOK_AGAIN_S)


def _is_unsafe(text: str) -> bool:
    """Whether it would be more than one property of the message."""
    return "\x01" in text or "\x02" in text

"""What a slave of RocketMQ asks about timers every three seconds: how far its master's wheel has turned, and what waits in it.
RocketMQ: AdminBrokerProcessor, TimerCheckpoint, TimerMetrics (5.3.3 broker/processor/, store/timer/).

This broker takes no timed messages yet. While its log holds none either, the answer is that of a master nobody ever sent one: nothing
waits, and all that was due until now has been delivered. A log taken over from RocketMQ may hold some; how far those were delivered is
not known here, so the question is refused, and the slave keeps what its last master told it.

A master of RocketMQ that comes back (enableSlaveActingMaster) asks its slaves how far they have got, takes the answer whose version is
not older than its own, and does not serve before each has answered. A slave of ours has delivered nothing: its version is the oldest.
"""

from __future__ import annotations

import struct
from typing import Final

from .._core.remoting import Request
from ..remoting.bodies import DataVersion
from ..remoting.codes import RequestCode, ResponseCode, request_name
from ..remoting.command import CommandError, Response
from .parts import HandlerTable, Parts, json_response, now_ms

WHEEL_TOPIC: Final = "rmq_sys_wheel_timer"
PRECISION_MS: Final = 1000
_CHECKPOINT: Final = struct.Struct(">7q")
"""Read until (ms), flushed position of the timer log, queue offset, the master's queue offset; state, time and count of the version."""


class TimerAdmin:
    """Handlers of both requests."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def handlers(self) -> HandlerTable:
        return {RequestCode.GET_TIMER_CHECK_POINT: self._checkpoint, RequestCode.GET_TIMER_METRICS: self._metrics}

    def _checkpoint(self, request: Request) -> Response:
        if self._parts.settings.is_slave:
            return Response(body=_CHECKPOINT.pack(0, 0, 0, 0, 0, 0, 0))
        self._check_there_are_none(request)
        return Response(body=_CHECKPOINT.pack(now_ms() // PRECISION_MS * PRECISION_MS, 0, 0, 0, 0, self._parts.boot_ms, 0))

    def _metrics(self, request: Request) -> Response:
        self._check_there_are_none(request)
        return json_response({"dataVersion": DataVersion(self._parts.boot_ms).to_json(), "timingCount": {}})

    def _check_there_are_none(self, request: Request) -> None:
        if self._parts.store.max_offset(WHEEL_TOPIC, 0) > 0:
            raise CommandError(
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                f"{request_name(request.code)}: this broker does not support timers yet, and its log holds timed messages",
            )

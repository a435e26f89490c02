"""What slaves ask of timed messages every three seconds: how far their master has entered and delivered them, and how many wait.
RocketMQ: AdminBrokerProcessor, TimerCheckpoint, SlaveSynchronize (5.3.3 broker/processor/, store/timer/, broker/slave/).

    native timers (csrc/broker/timed_messages.h) ─ checkpoint ─► GET_TIMER_CHECK_POINT ─► a slave's timers, which deliver nothing

A slave never delivers what the checkpoint calls delivered, so the delivered copies have to be in the slave's log first: an answer says
where the master's log ended, and a slave uses it only when its own log has got that far.

A master that comes back (enableSlaveActingMaster) asks its slaves how far they have got; one of RocketMQ takes the answer whose version is
not older than its own, and does not serve before each has answered. A slave that has not stood in for it (acting_master.py) has delivered
nothing: its version is the oldest.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from .._core.remoting import Command, Request
from ..remoting.codes import RequestCode, ResponseCode
from ..remoting.command import CommandError, Response
from .acting_file import timers_passed_on
from .masters_answers import LOG_END, LoggedAnswers
from .native_options import timer_options
from .parts import HandlerTable, Parts, json_response

ACTING_LOG_END: Final = "actingLogEnd"
"""What a slave adds to its answer that has stood in for its master: where its log ended then."""
ACTING_READ_MS, ACTING_BELOW, ACTING_ASIDE = "actingReadMs", "actingQueueOffset", "actingSetAside"
"""What one adds that does so now and has set some aside: slots before are over for what stands below in the timer queue, but for these
offsets. Who does not read them goes by the checkpoint, which is that of the first of these messages."""
CHECKPOINT: Final = struct.Struct(">7q")
"""Read until (ms), flushed position of the timer log, queue offset, the master's queue offset; state, time and count of the version."""


class NativeTimers(Protocol):
    """The part of Broker that is needed here."""

    def follow_timer_checkpoint(self, body: bytes) -> None: ...


class TimerAdmin:
    """Handlers of both requests."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def handlers(self) -> HandlerTable:
        return {RequestCode.GET_TIMER_CHECK_POINT: self._checkpoint, RequestCode.GET_TIMER_METRICS: self._metrics}

    def _checkpoint(self, request: Request) -> Response:
        acting_log_end = self._parts.acting.log_end
        if self._parts.settings.is_slave and acting_log_end is None:
            return Response(body=CHECKPOINT.pack(0, 0, 0, 0, 0, 0, 0))
        checkpoint = self._parts.native.timer_checkpoint()
        if checkpoint is None:
            raise CommandError(ResponseCode.SYSTEM_ERROR, "The checkpoint is null")
        if acting_log_end is not None:
            return Response(fields={ACTING_LOG_END: str(acting_log_end), **self._told_of_aside()}, body=checkpoint)
        log_end = self._parts.ha.durable_log.mark().end  # behind all that the checkpoint calls delivered
        return Response(fields={LOG_END: str(log_end)}, body=checkpoint)

    def _told_of_aside(self) -> dict[str, str]:
        known = timers_passed_on(self._parts)
        if not self._parts.acting.is_acting or not known.offsets:
            return {}
        aside = ",".join(map(str, known.offsets))
        return {ACTING_READ_MS: str(known.read_ms), ACTING_BELOW: str(known.queue_offset), ACTING_ASIDE: aside}

    def _metrics(self, request: Request) -> Response:
        if not self._parts.config.boolean("timerWheelEnable"):
            raise CommandError(ResponseCode.SYSTEM_ERROR, "The timer message store is null")
        return json_response(self._parts.timer_metrics.to_json())


@dataclass(frozen=True, slots=True)
class CopiedCheckpoint:
    """The checkpoint in a master's answer."""

    body: bytes
    log_end: int = 0
    """Below it lies what was delivered; 0 where that is not said, by a master that is RocketMQ."""

    @staticmethod
    def of(answer: Command) -> CopiedCheckpoint:
        """Raises ValueError."""
        if len(answer.body) < CHECKPOINT.size:
            raise ValueError(f"a timer checkpoint has {CHECKPOINT.size} bytes, this has {len(answer.body)}")
        return CopiedCheckpoint(answer.body[: CHECKPOINT.size], int(answer.fields.get(LOG_END, "0")))


class FollowedTimers:
    """A slave's timers: they go on as far as the master's, once the slave's own log holds what the master's have delivered."""

    def __init__(self, native: NativeTimers) -> None:
        self._native = native
        self._answers: LoggedAnswers[CopiedCheckpoint] = LoggedAnswers()

    def take(self, copied: CopiedCheckpoint, log_end: int, connection: int | None) -> None:
        """log_end: of the slave's log; connection: the one that the slave receives its log by."""
        logged = self._answers.take(copied, log_end, connection)
        if logged is not None:
            self._native.follow_timer_checkpoint(logged.body)


def start_timers(parts: Parts) -> None:
    """Starts the timers; does nothing with timerWheelEnable=false. Blocks on the disk. Raises as Broker.start_timers."""
    config = parts.config
    if config.boolean("timerWheelEnable"):
        parts.native.start_timers(config.text("storePathRootDir"), **timer_options(config, delivers=not parts.ha.is_slave))


def runtime_facts(stats: Mapping[str, int], rates: tuple[float | None, float | None]) -> dict[str, str]:
    """What mqadmin brokerStatus shows about timers. rates: entered and delivered per second."""
    entered, delivered = (rate or 0.0 for rate in rates)
    return {
        "timerReadBehind": str(stats["dequeue_behind_ms"] // 1000),
        "timerOffsetBehind": str(stats["enqueue_behind_ms"] // 1000),
        "timerCongestNum": str(stats["messages_waiting"]),
        "timerEnqueueTps": str(round(entered, 2)),
        "timerDequeueTps": str(round(delivered, 2)),
    }

"""Requests about transactional messages: those that the native path passes on, and an operator's.
RocketMQ: EndTransactionProcessor, AdminBrokerProcessor.resumeCheckHalfMessage (5.3.3 broker/processor/).

    END_TRANSACTION ─ native (csrc/broker/end_transaction.c) ─ large, on disk, or a slow log ─► here, in a thread
"""

from __future__ import annotations

import functools
import logging
import time

from .._core.errors import RocketpyError
from .._core.remoting import Request
from ..remoting.codes import RequestCode, ResponseCode
from ..remoting.command import CommandError, Response
from ..remoting.headers import EndTransactionRequestHeader, ResumeCheckHalfMessageRequestHeader
from .admin_messages import message_offset
from .message_rights import check_sender, half_at
from .parts import HandlerTable, Parts
from .retries import OVERLOADED, PATIENCE_S, found
from .transaction_checks import Fate

log = logging.getLogger(__name__)


class TransactionRequests:
    """Handlers of requests about transactions."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def handlers(self) -> HandlerTable:
        return {
            RequestCode.END_TRANSACTION: self._end,
            RequestCode.RESUME_CHECK_HALF_MESSAGE: self._resume,
        }

    async def _end(self, request: Request) -> Response:
        header = EndTransactionRequestHeader.decode(request.fields)
        parts = self._parts
        turn_by = time.monotonic() + PATIENCE_S
        if parts.auth.asks_rights(request.code):
            half = await found(parts, half_at, header.commit_log_offset, turn_by)
            if half is None:
                return Response(ResponseCode.SYSTEM_ERROR, "Find prepared transaction message failed")
            check_sender(parts.auth, request, half)
        end = functools.partial(
            parts.native.end_transaction,
            header.producer_group,
            header.tran_state_table_offset,
            header.commit_log_offset,
            header.commit_or_rollback,
            bool(header.from_transaction_check),
        )
        try:
            code, remark = await parts.copies.run(lambda _: end(), turn_by - time.monotonic())
        except TimeoutError:  # the producer is asked later
            return Response(ResponseCode.SYSTEM_BUSY, OVERLOADED)
        return Response(code, remark)

    async def _resume(self, request: Request) -> Response:
        """Makes the broker ask again about a message that it had given up; its checks are counted anew."""
        header = ResumeCheckHalfMessageRequestHeader.decode(request.fields)
        self._parts.check_not_slave()
        try:
            put = functools.partial(self._parts.native.put_half_again, message_offset(header.msg_id or ""), Fate.RESUMED, 0)
            await self._parts.copies.run(lambda _: put())
        except (RocketpyError, CommandError) as error:
            log.warning("message %s is not asked about again: %s", header.msg_id, error)
            remark = f"Put message back to RMQ_SYS_TRANS_HALF_TOPIC failed. {error}"
            return Response(ResponseCode.SYSTEM_ERROR, remark)
        return Response()

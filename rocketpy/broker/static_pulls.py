"""Pulls of an earlier piece of a global queue: the request to the broker that has the piece, and the meaning of its answer in global
offsets.
RocketMQ: PullMessageProcessor.rewriteRequestForStaticTopic, rewriteResponseForStaticTopic (5.3.3 broker/processor/).

    piece      asked before what is there            asked at its end
    first      PULL_OFFSET_MOVED to what is there    on to the next piece, PULL_RETRY_IMMEDIATELY
    between    PULL_RETRY_IMMEDIATELY from there     the same
    last       PULL_RETRY_IMMEDIATELY from there     as its broker says

While the piece behind it has no offset yet there is nothing to go on to: PULL_NOT_FOUND. Pure functions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from .._core.remoting import Command
from ..remoting.codes import ResponseCode
from ..remoting.command import Response
from ..remoting.headers import PullMessageRequestHeader, PullMessageResponseHeader
from ..remoting.queue_mapping import Items, MappingItem, find_item, find_next

LONG_MIN: Final = -(1 << 63)
FLAG_COMMIT_OFFSET: Final = 1
FLAG_SUSPEND: Final = 2
PULL_CODES: Final = (
    ResponseCode.SUCCESS,
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
)


def remote_pull(item: MappingItem, header: PullMessageRequestHeader) -> tuple[int, dict[str, str]]:
    """Where it begins in the piece's queue, and the fields that differ from the consumer's request: it neither waits there nor commits."""
    wanted = min(header.max_msg_nums, item.end_offset - item.start_offset) if item.has_end else header.max_msg_nums
    begin = max(LONG_MIN, item.offset(header.queue_offset))
    flags = header.sys_flag & ~(FLAG_COMMIT_OFFSET | FLAG_SUSPEND)
    return begin, {"queueOffset": str(begin), "maxMsgNums": str(wanted), "sysFlag": str(flags)}


@dataclass(frozen=True, slots=True)
class _Told:
    """An answer: a code, and offsets in the queue of a piece."""

    item: MappingItem
    code: int
    next: int
    min: int
    max: int


def pull_response(items: Items, item: MappingItem, asked: int, answer: Command) -> Response:
    """The answer to the consumer, who asked for an offset of the piece's queue. Raises HeaderError."""
    header = PullMessageResponseHeader.decode(answer.fields)
    told = _Told(item, answer.code, header.next_begin_offset, header.min_offset, header.max_offset)
    if answer.code != ResponseCode.SUCCESS:
        told = _judged(items, told, asked)
    item = told.item
    next_offset = min(told.next, item.end_offset) if item.has_end else told.next
    fields = replace(
        header,
        next_begin_offset=item.global_offset(next_offset),
        min_offset=item.global_offset(told.min),
        max_offset=max(item.global_offset(told.max), items[-1].max_global_offset),
        offset_delta=item.logic_offset - item.start_offset,
    )
    return Response(told.code, answer.remark, fields, answer.body)


def _judged(items: Items, told: _Told, asked: int) -> _Told:
    item = told.item
    is_first, is_last = item is find_item(items, 0), item is items[-1]
    if asked < told.min:
        code = ResponseCode.PULL_OFFSET_MOVED if is_first else ResponseCode.PULL_RETRY_IMMEDIATELY
        return replace(told, code=code, next=told.min)
    if is_last and asked > told.max and told.code == ResponseCode.PULL_OFFSET_MOVED:
        told = replace(told, next=told.max)
    if asked < told.max or (is_last and not is_first):
        return told
    following = find_next(items, item)
    if following is None:
        return replace(told, code=ResponseCode.PULL_NOT_FOUND)
    start = following.start_offset
    return _Told(following, ResponseCode.PULL_RETRY_IMMEDIATELY, start, start, start)

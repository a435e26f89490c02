"""Requests about flow control of cold data: how much operators let single groups read from the disk, and how much the groups have read.
RocketMQ: ColdDataCgCtrService, AdminBrokerProcessor (5.3.3 broker/). The control itself: csrc/broker/cold_flow.h.

Limits live as long as the broker, as RocketMQ's do; LIMITS_MAX of them.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from .._core.errors import RocketpyError
from .._core.remoting import Request
from ..config import read_properties
from ..remoting.codes import RequestCode, ResponseCode
from ..remoting.command import CommandError, Response
from .names import is_possible
from .parts import HandlerTable, Parts, json_response

log = logging.getLogger(__name__)

LIMITS_MAX: Final = 10_000
BYTES_MAX: Final = 2**63 - 1
DIGITS_MAX: Final = 19
SHOWN_MAX: Final = 64
ALL_GROUPS: Final = ""


class ColdFlowAdmin:
    """The handlers, and the limits that operators have set."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._limits: dict[str, int] = {}

    def handlers(self) -> HandlerTable:
        return {
            RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG: self._set,
            RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG: self._remove,
            RequestCode.GET_COLD_DATA_FLOW_CTR_INFO: self._show,
        }

    def _set(self, request: Request) -> Response:
        """Sets the limits in lines of group=bytes; all of them, or none."""
        limits = {entry.key: _bytes(entry.key, entry.value) for entry in read_properties(_text(request))}
        if len(self._limits.keys() | limits.keys()) > LIMITS_MAX:
            raise CommandError(ResponseCode.INVALID_PARAMETER, f"more than {LIMITS_MAX} groups have limits: remove some")
        for group, limit in limits.items():
            self._tell(group, limit)
            self._limits[group] = limit
        log.info("updateColdDataFlowCtrGroupConfig: %s, caller address=%s", limits, request.remote_address)
        return Response()

    def _remove(self, request: Request) -> Response:
        group = _text(request)
        if self._limits.pop(group, None) is not None:
            self._tell(group, -1)
            log.info("removeColdDataFlowCtrGroupConfig: %s, caller address=%s", group, request.remote_address)
        return Response()

    def _tell(self, group: str, limit: int) -> None:
        try:
            self._parts.native.set_cold_limit(group, limit)
        except RocketpyError as error:
            raise CommandError(ResponseCode.SYSTEM_ERROR, f"the limit of group {group} could not be set: {error}") from error

    def _show(self, request: Request) -> Response:
        parts = self._parts
        uses = ((config.group, parts.native.cold_use(config.group)) for config in parts.groups)
        everything = parts.native.cold_use(ALL_GROUPS)
        return json_response(
            {
                "runtimeTable": {group: _use_json(*use) for group, use in uses if use is not None},
                "configTable": self._limits,
                "cgColdReadThreshold": parts.config.integer("cgColdReadThreshold"),
                "globalColdReadThreshold": parts.config.integer("globalColdReadThreshold"),
                "globalAcc": everything[0] if everything is not None else 0,
            }
        )


def _use_json(read_bytes: int, first_ms: int, last_ms: int) -> dict[str, Any]:
    return {"coldAcc": read_bytes, "createTimeMills": first_ms, "lastColdReadTimeMills": last_ms}


def _text(request: Request) -> str:
    try:
        return request.body.decode()
    except UnicodeDecodeError as error:
        raise CommandError(ResponseCode.INVALID_PARAMETER, f"the body is not UTF-8: {error}") from error


def _bytes(group: str, value: str) -> int:
    if not is_possible(group):
        raise CommandError(ResponseCode.INVALID_PARAMETER, f"no group can have the name {group[:SHOWN_MAX]!r}")
    if not (value.isascii() and value.isdigit() and len(value) <= DIGITS_MAX and int(value) <= BYTES_MAX):
        shown = value[:SHOWN_MAX]
        raise CommandError(ResponseCode.INVALID_PARAMETER, f"the limit of group {group} is {shown!r}: expected bytes, 0 to {BYTES_MAX}")
    return int(value)

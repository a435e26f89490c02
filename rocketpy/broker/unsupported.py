"""Requests that this broker knows but does not serve yet: one table, so that every client gets an answer, and a clearer one than "unknown".

RocketMQ's code for all of them is REQUEST_CODE_NOT_SUPPORTED; the remark says what is missing. A row goes when its feature comes.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Final

from .._core.remoting import Request
from ..remoting.codes import RequestCode, ResponseCode, request_name
from ..remoting.command import Response
from .parts import HandlerTable

_MISSING: Final[Mapping[str, tuple[RequestCode, ...]]] = {
    "rollbacks of POP's database": (RequestCode.POP_ROLLBACK,),
    "modes of reading the commit log": (RequestCode.SET_COMMITLOG_READ_MODE,),
}


def handlers() -> HandlerTable:
    """A handler for each request of the table, which refuses it."""
    return {code: functools.partial(_refuse, feature) for feature, codes in _MISSING.items() for code in codes}


def _refuse(feature: str, request: Request) -> Response:
    return Response(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f"{request_name(request.code)}: this broker does not support {feature} yet")

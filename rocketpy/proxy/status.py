"""The outcome of a request, in the status codes of gRPC clients.
RocketMQ: ResponseBuilder, GrpcProxyException (5.3.3 proxy/grpc/v2/common/).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from .._core.errors import Busy, RocketpyError, TimedOut
from ..remoting.codes import ResponseCode
from ..remoting.command import CommandError
from . import schema

log = logging.getLogger(__name__)

OK: Final = "OK"
_OF_BROKERS: Final[Mapping[int, str]] = {
    ResponseCode.SUCCESS: OK,
    ResponseCode.SYSTEM_BUSY: "TOO_MANY_REQUESTS",
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: "NOT_IMPLEMENTED",
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: "CONSUMER_GROUP_NOT_FOUND",
    ResponseCode.TOPIC_NOT_EXIST: "TOPIC_NOT_FOUND",
    ResponseCode.LMQ_QUOTA_EXCEEDED: "LITE_TOPIC_QUOTA_EXCEEDED",
    ResponseCode.LITE_SUBSCRIPTION_QUOTA_EXCEEDED: "LITE_SUBSCRIPTION_QUOTA_EXCEEDED",
}
"""What brokers say; anything else is INTERNAL_SERVER_ERROR."""


class ProxyError(Exception):
    """A request fails, and is answered with one of the proxy's own codes."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def status(code: str, text: str = "") -> Any:
    """A Status. Its message is the code's name unless another one is given."""
    return schema.message("Status")(code=schema.number("Code", code), message=text or code)


def code_of_broker(code: int) -> str:
    return _OF_BROKERS.get(code, "INTERNAL_SERVER_ERROR")


def status_of(error: BaseException) -> Any:
    """The answer to a request that failed."""
    if isinstance(error, ProxyError):
        return status(error.code, str(error))
    if isinstance(error, CommandError):
        return status(code_of_broker(error.code), str(error))
    if isinstance(error, TimedOut | TimeoutError):
        return status("PROXY_TIMEOUT", str(error) or "the broker did not answer in time")
    if isinstance(error, Busy):
        return status("TOO_MANY_REQUESTS", str(error))
    if isinstance(error, RocketpyError):
        return status("INTERNAL_SERVER_ERROR", str(error))
    log.error("a request failed", exc_info=error)
    return status("INTERNAL_SERVER_ERROR", f"{type(error).__name__}: {error}")


def joined(codes: set[str]) -> Any:
    """The status of an answer with a status for each of its entries."""
    if not codes:
        return status("INTERNAL_SERVER_ERROR", "there is no result")
    return status(codes.pop() if len(codes) == 1 else "MULTIPLE_RESULTS")

"""What can go wrong with a command. Each error is one line: where, what, why, what to do. RocketMQ: SubCommandException (5.5.0)."""

from __future__ import annotations

from typing import Any

from .._core.errors import NetworkError, RocketpyError, TimedOut
from ..remoting.codes import RequestCode, ResponseCode, request_name, response_name

REMEDIES = {
    ResponseCode.TOPIC_NOT_EXIST: "topicList shows the topics there are",
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: "consumerProgress shows the groups there are, updateSubGroup makes one",
    ResponseCode.NO_PERMISSION: "the user needs that right; credentials come from conf/tools.yml, or ROCKETMQ_ACCESS_KEY and _SECRET_KEY",
    ResponseCode.SYSTEM_BUSY: "the server is overloaded, try again",
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: "this server, or this release of it, has no such function",
    ResponseCode.CONSUMER_NOT_ONLINE: "a consumer of the group has to run for this",
    ResponseCode.CONTROLLER_NOT_LEADER: "getControllerMetaData names the leader",
    ResponseCode.USER_NOT_EXIST: "listUser shows the users there are",
    ResponseCode.POLICY_NOT_EXIST: "listAcl shows the rights there are",
}


OF_USERS = range(RequestCode.AUTH_CREATE_USER, RequestCode.AUTH_LIST_ACL + 1)
"""Brokers refuse of these what cannot be, such as rights of a user who is not there, as they refuse who may not ask: with NO_PERMISSION."""


class UsageError(RocketpyError):
    """An invalid command line: exit status 2."""


class AdminError(RocketpyError):
    """A command did not do what it was asked to: exit status 1. code: the response's; None if there was no response."""

    def __init__(self, cause: str, *, remedy: str = "", address: str = "", request: int | None = None, code: int | None = None) -> None:
        self.cause, self.remedy, self.address, self.request, self.code = cause, remedy, address, request, code
        super().__init__(self._line())

    def _line(self) -> str:
        asked = f"{request_name(self.request)} ({self.request})" if self.request is not None else ""
        answer = f"{response_name(self.code)} ({self.code})" if self.code is not None else ""
        parts = []
        if self.address:
            parts.append(f"{self.address} answered {asked} with {answer}" if answer else f"{self.address}, {asked}")
        elif answer:
            parts.append(answer)
        line = ": ".join((*parts, self.cause))
        return f"{line}; {self.remedy}" if self.remedy else line

    def about(self, what: str) -> AdminError:
        """The same error, about one of several things."""
        return AdminError(f"{what}: {self.cause}", remedy=self.remedy, address=self.address, request=self.request, code=self.code)

    def members(self) -> dict[str, Any]:
        """The error as a JSON object."""
        named = {
            "cause": self.cause,
            "remedy": self.remedy or None,
            "address": self.address or None,
            "request": None if self.request is None else request_name(self.request),
            "code": self.code,
            "codeName": None if self.code is None else response_name(self.code),
        }
        return {name: value for name, value in named.items() if value is not None}


def refused(address: str, request: int, code: int, remark: str | None) -> AdminError:
    """The error for a response other than SUCCESS. Remarks end with a line that links to RocketMQ's FAQ, so only the first line is kept."""
    lines = (remark or "").strip().splitlines()
    return AdminError(
        lines[0] if lines else response_name(code), remedy=_remedy(request, code), address=address, request=request, code=code
    )


def unanswered(address: str, request: int, error: RocketpyError) -> AdminError:
    """The error if there was no response at all."""
    if isinstance(error, TimedOut):
        remedy = "--timeout SECONDS waits longer"
    elif isinstance(error, NetworkError):
        remedy = "does it run, and can it be reached from here under this address?"
    else:
        remedy = ""
    return AdminError(str(error), remedy=remedy, address=address, request=request)


def _remedy(request: int, code: int) -> str:
    remedy = next((remedy for known, remedy in REMEDIES.items() if known == code), "")
    return f"if it is not that, {remedy}" if code == ResponseCode.NO_PERMISSION and request in OF_USERS else remedy

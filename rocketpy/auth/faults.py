"""What a request about users and rights is refused with. RocketMQ: AuthenticationException, AuthorizationException (5.5.0 auth/)."""

from __future__ import annotations

from ..remoting.codes import ResponseCode
from ..remoting.command import CommandError


class AuthFault(CommandError):
    """NO_PERMISSION, RocketMQ's answer to everything that its tables of users and rights refuse, with RocketMQ's text."""

    def __init__(self, remark: str) -> None:
        super().__init__(ResponseCode.NO_PERMISSION, remark)

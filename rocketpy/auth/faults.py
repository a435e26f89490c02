"""What a request about users and rights is refused with. RocketMQ: AuthenticationException, AuthorizationException (5.5.0 auth/)."""

from __future__ import annotations

from ..remoting.codes import ResponseCode
from ..remoting.command import CommandError


class AuthFault(CommandError):
    """NO_PERMISSION, which is RocketMQ's answer to whatever its tables of users and rights refuse; the text is its own."""

    def __init__(self, remark: str) -> None:
        super().__init__(ResponseCode.NO_PERMISSION, remark)

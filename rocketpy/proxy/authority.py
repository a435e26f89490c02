"""Whether a call comes from the user that it names, and whether that user may do what it asks for. Refusals have RocketMQ's words, as in
csrc/auth/auth_gate.c.
RocketMQ: AuthenticationPipeline, AuthorizationPipeline (5.3.3 proxy/grpc/pipeline/), DefaultAuthenticationHandler (5.3.3 auth/).

A call that is refused is judged once more when a newer copy of the users can be had. Unlike in RocketMQ, a call with a valid signature
always has the rights of its signer: x-mq-authorization-ak, which any client may set, counts only where no signature is asked for.

Bounds   LINES_PER_SECOND refusals in the log, then how many had no line.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any, Final

from .._core.auth import IDENTITY_DISABLED, IDENTITY_PROVEN, IDENTITY_UNKNOWN, IDENTITY_WRONG_SIGNATURE, VERDICT_ALLOW, VERDICT_DENY
from .claims import Claim, claim_of
from .context import Context
from .copied_users import CopiedUsers
from .requested_rights import Right, requested_rights
from .settings import ProxySettings
from .status import ProxyError

log = logging.getLogger(__name__)

LINES_PER_SECOND: Final = 50
NAME_SHOWN: Final = 128
_IDENTITIES: Final[Mapping[int, str]] = {
    IDENTITY_UNKNOWN: "User:{user} is not found.",
    IDENTITY_DISABLED: "User:{user} is disabled.",
    IDENTITY_WRONG_SIGNATURE: "check signature failed.",
}


class Authority:
    """Checks, before a method runs, who calls it and what the caller may do."""

    def __init__(self, settings: ProxySettings, users: CopiedUsers) -> None:
        self._settings = settings
        self._users = users
        self._unsigned = _names(settings.authentication_whitelist)
        self._unjudged = _names(settings.authorization_whitelist)
        self._second = 0
        self._lines = 0
        self.counts = {"authenticated": 0, "authorized": 0, "unauthenticated": 0, "unauthorized": 0}
        """Calls that passed a check or were refused by it, as the native gate counts them."""

    async def check(self, context: Context, request: Any) -> None:
        """Raises ProxyError UNAUTHORIZED."""
        name = request.DESCRIPTOR.full_name
        claim = Claim()
        try:
            claim = claim_of(context.authorization, context.date_time)
            if self._settings.authentication_enabled and name not in self._unsigned:
                await self._authenticate(claim)
            if self.asks_rights(name):
                await self._authorize(self._subject(context, claim), requested_rights(request), context.host)
        except ProxyError as error:
            self._log(claim.user, context, request, error)
            raise

    def asks_rights(self, name: str) -> bool:
        """Whether those who make a request of this name need rights."""
        return self._settings.authorization_enabled and name not in self._unjudged

    def user_of(self, context: Context) -> str:
        """Who makes a call that was let in. Raises ProxyError."""
        return self._subject(context, claim_of(context.authorization, context.date_time))

    def _subject(self, context: Context, claim: Claim) -> str:
        return claim.user if self._settings.authentication_enabled else context.access_key or claim.user

    async def _authenticate(self, claim: Claim) -> None:
        if not claim.user:
            self._refuse("unauthenticated", "username cannot be null.")
        identity = self._identify(claim)
        if identity != IDENTITY_PROVEN and await self._users.copy_for_refused():
            identity = self._identify(claim)
        if identity != IDENTITY_PROVEN:
            self._refuse("unauthenticated", _IDENTITIES[identity].format(user=_shown(claim.user)))
        self.counts["authenticated"] += 1

    def _identify(self, claim: Claim) -> int:
        return self._users.native.identify(claim.user, claim.content, claim.signature)

    async def _authorize(self, user: str, rights: list[Right], host: str) -> None:
        if not rights:
            return
        if not user:
            self._refuse("unauthorized", "Authorization failed. Please verify your access rights and try again.")
        refused = self._refused_right(user, rights, host)
        if refused is not None and await self._users.copy_for_refused():
            refused = self._refused_right(user, rights, host)
        if refused is not None:
            self._refuse("unauthorized", refused)
        self.counts["authorized"] += 1

    def _refused_right(self, user: str, rights: list[Right], host: str) -> str | None:
        """The text about the first right that is not granted."""
        if user not in self._users:
            return f"User:{_shown(user)} not found."
        for right in rights:
            verdict = self._users.tables.judge(user, right.kind, right.name, right.actions, host)
            if verdict != VERDICT_ALLOW:
                why = "the decision is deny." if verdict == VERDICT_DENY else "no matched policies."
                return f"User:{_shown(user)} has no permission to access {right.kind}:{_shown(right.name)} from {host}, {why}"
        return None

    def _refuse(self, figure: str, text: str) -> None:
        """Raises ProxyError. As long as no copy of the users exists, the error is an internal one, since the caller is not to blame."""
        self.counts[figure] += 1
        if not len(self._users) and self._users.trouble:
            raise ProxyError("INTERNAL_SERVER_ERROR", f"users of the cluster are not known yet: {self._users.trouble}")
        raise ProxyError("UNAUTHORIZED", text)

    def _log(self, user: str, context: Context, request: Any, error: ProxyError) -> None:
        second = int(time.monotonic())
        if second != self._second:
            if self._lines > LINES_PER_SECOND:
                log.warning("%d more refused calls have no line of their own", self._lines - LINES_PER_SECOND)
            self._second, self._lines = second, 0
        self._lines += 1
        if self._lines <= LINES_PER_SECOND:
            log.warning("User:%r from %s is refused %s: %r", _shown(user), context.host, request.DESCRIPTOR.name, str(error))


def _names(text: str) -> frozenset[str]:
    """The names in a whitelist. Those of gRPC's messages look like apache.rocketmq.v2.SendMessageRequest."""
    return frozenset(each.strip() for each in text.split(",") if each.strip())


def _shown(name: str) -> str:
    return name if len(name) <= NAME_SHOWN else f"{name[:NAME_SHOWN]}..."

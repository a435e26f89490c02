"""Users and rights of the cluster, copied from one of its brokers into a native table, which the checks ask.
RocketMQ: ProxyAuthenticationMetadataProvider, ClusterMetadataService.userCache (5.3.3 proxy/), which ask a broker for each user.

    broker ── LIST_USER, LIST_ACL ──► CopiedUsers ─ what differs ─► AuthTable ◄─ Authority, the gate of the port for 4.x clients

The masters of rocketMQClusterName are asked one after the other until one answers. This happens every userCacheRefreshSeconds, and sooner
after a refusal: the user may be new. While none answers, the last copy stays in force.

Threads  one event loop. Bounds: the table's; a copy is made no oftener than each PAUSE_S, and takes a tenth of the time at most.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from typing import Any, Final

from .._core.auth import AuthTable
from .._core.errors import RocketpyError
from ..auth.acls import Acl
from ..auth.faults import AuthFault
from ..auth.native_tables import NativeTables
from ..auth.users import User
from ..remoting.codes import RequestCode, ResponseCode
from ..remoting.command import CommandError, Fields, check_success
from ..remoting.headers import ListAclsRequestHeader, ListUsersRequestHeader
from ..remoting.json_codec import JsonError, read_json
from .brokers import Brokers
from .settings import ProxySettings
from .status import ProxyError

log = logging.getLogger(__name__)

PAUSE_S: Final = 0.2
WAIT_MAX_S: Final = 2.0
"""For who is refused, until a copy may be made again; where copies take longer than that allows, he is refused as he is."""
LOOK_S: Final = 1.0
"""How often it is looked whether the gate has refused anybody."""
SHARE: Final = 10
"""Of the time that copying may take one part."""


class CopiedUsers:
    """The users and rights that were copied from the brokers. Owns its native table, and is closed after the server that uses the table as
    its gate."""

    def __init__(self, settings: ProxySettings, brokers: Brokers) -> None:
        self._settings = settings
        self._brokers = brokers
        self.native = AuthTable()
        self.native.set_options(
            authenticate=settings.authentication_enabled,
            authorize=settings.authorization_enabled,
            cluster_name=settings.rocketmq_cluster_name,
            authentication_whitelist=request_codes(settings.authentication_whitelist),
            authorization_whitelist=request_codes(settings.authorization_whitelist),
        )
        self.tables = NativeTables(self.native)
        self._users: dict[str, User] = {}
        self._acls: dict[str, Acl] = {}
        self._next_s = 0.0  # before it nothing is copied for those who were refused
        self._copying: asyncio.Task[None] | None = None
        self._has_asked = False  # the copy under way may be older than what somebody was told since
        self._refused = 0
        self.trouble = "no broker was asked yet"
        """Why there is no copy, or none that is new; "" while there is one."""

    def __contains__(self, user: str) -> bool:
        return user in self._users

    def __len__(self) -> int:
        return len(self._users)

    def close(self) -> None:
        if self._copying is not None:
            self._copying.cancel()
        self.native.close()

    # ---- when ----

    async def copy(self) -> None:
        """Copies now, or waits for the copy that is under way. A failure is logged and kept in `trouble`."""
        if self._copying is None or self._copying.done():
            self._copying = asyncio.ensure_future(self._copy())
        await asyncio.shield(self._copying)

    async def copy_for_refused(self) -> bool:
        """To be called when a caller is refused. Waits until a copy may be made, and for the copy. True if there is now a newer copy than
        the one the caller was judged by."""
        is_newer = False
        if self._has_asked and self._copying is not None:
            await asyncio.shield(self._copying)
            is_newer = not self.trouble
        if self._copying is None or self._copying.done():
            wait_s = self._next_s - time.monotonic()
            if wait_s > WAIT_MAX_S:
                return is_newer
            self._copying = asyncio.ensure_future(self._copy(max(0.0, wait_s)))
        await asyncio.shield(self._copying)
        return not self.trouble

    async def look_at_gate(self) -> None:
        """Makes a copy if the gate has refused somebody. A gate cannot wait for that, so the caller is let in at the next attempt."""
        stats = self.native.stats()
        refused = stats["unauthenticated"] + stats["unauthorized"]
        if refused != self._refused or self.trouble:
            self._refused = refused
            await self.copy_for_refused()

    async def _copy(self, wait_s: float = 0.0) -> None:
        await asyncio.sleep(wait_s)
        began_s = time.monotonic()
        self._has_asked = True
        try:
            users, acls = await self._ask()
            self.put(users, acls)
        except (RocketpyError, ProxyError) as error:
            if str(error) != self.trouble:
                cause = f"{error}{_remedy(error)}"
                log.warning("users of %s cannot be copied, %d are known: %s", self._settings.rocketmq_cluster_name, len(self), cause)
            self.trouble = str(error)
        else:
            self.trouble = ""
        finally:
            self._has_asked = False
            ended_s = time.monotonic()
            self._next_s = ended_s + max(PAUSE_S, (SHARE - 1) * (ended_s - began_s))

    # ---- what ----

    async def _ask(self) -> tuple[list[User], list[Acl]]:
        """Raises RocketpyError, ProxyError, with the reason why the last of the brokers gave no answer."""
        cluster = self._settings.rocketmq_cluster_name
        fault: RocketpyError | ProxyError = ProxyError("INTERNAL_SERVER_ERROR", f"cluster {cluster} has no master; rocketMQClusterName")
        for broker in await self._brokers.masters_of(cluster):
            try:
                users = [_user(each) for each in await self._list(broker, RequestCode.AUTH_LIST_USER, ListUsersRequestHeader(filter=""))]
                header = ListAclsRequestHeader(subject_filter="", resource_filter="")
                acls = [_acl(each) for each in await self._list(broker, RequestCode.AUTH_LIST_ACL, header)]
            except (RocketpyError, ProxyError) as error:
                fault = error
            else:
                return [user for user in users if user is not None], [acl for acl in acls if acl is not None]
        raise fault

    async def _list(self, broker: str, code: RequestCode, header: Fields) -> list[Any]:
        body = check_success(await self._brokers.call(broker, code, header)).body
        try:
            listed = read_json(body) if body else []
        except JsonError as error:
            raise ProxyError("INTERNAL_SERVER_ERROR", f"{broker} lists its users in no JSON: {error}") from None
        if not isinstance(listed, list):
            raise ProxyError("INTERNAL_SERVER_ERROR", f"{broker} answers with no list of its users")
        return listed

    def put(self, users: Iterable[User], acls: Iterable[Acl]) -> None:
        """Replaces all users by these. One that the table does not accept is left out, hence refused."""
        wanted = {user.name: user for user in users}
        rights = {acl.user: acl for acl in acls}
        for name in self._users.keys() - wanted.keys():
            self.tables.delete_user(name)
            del self._users[name]
        for name in self._acls.keys() - rights.keys():
            self.tables.delete_acl(name)
            del self._acls[name]
        for name, user in wanted.items():
            if self._users.get(name) != user:
                self._put_user(user)
        for name, acl in rights.items():
            if self._acls.get(name) != acl:
                self._put_acl(acl)
        self.tables.publish()

    def _put_user(self, user: User) -> None:
        try:
            self.tables.put_user(user.name, user.password, user.is_super, user.is_enabled)
            self._users[user.name] = user
        except RocketpyError as error:
            log.warning("user %.100r cannot be used: %s", user.name, error)
            if self._users.pop(user.name, None) is not None:
                self.tables.delete_user(user.name)

    def _put_acl(self, acl: Acl) -> None:
        try:
            self.tables.put_acl(acl.user, acl.custom, acl.default)
            self._acls[acl.user] = acl
        except RocketpyError as error:
            log.warning("the rights of user %.100r cannot be used: %s", acl.user, error)
            if self._acls.pop(acl.user, None) is not None:
                self.tables.delete_acl(acl.user)


def _remedy(error: Exception) -> str:
    """What to do about brokers that do not let this proxy in."""
    if not isinstance(error, CommandError) or error.code != ResponseCode.NO_PERMISSION:
        return ""
    return "; enableAclRpcHookForClusterMode=true has it sign with innerClientAuthenticationCredentials, those of its brokers"


def request_codes(text: str) -> frozenset[int]:
    """The request codes in a whitelist, which also holds names of gRPC's messages."""
    return frozenset(int(part) for each in text.split(",") if (part := each.strip()).isascii() and part.isdigit() and len(part) < 10)


def _user(value: Any) -> User | None:
    try:
        return User.from_json(value) if isinstance(value, dict) else None
    except ValueError as error:
        log.warning("a user cannot be read: %s", error)
        return None


def _acl(value: Any) -> Acl | None:
    """The acl in a broker's answer. One that cannot be read as a whole is dropped: the unreadable entry may have been the one that
    denies."""
    try:
        return Acl.from_json(value) if isinstance(value, dict) else None
    except (AuthFault, ValueError) as error:
        log.warning("an acl cannot be read: %s", error)
        return None

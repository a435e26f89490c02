"""Users and rights of one broker: read at the start, put in front of its listeners, changed by requests, kept in a file.
RocketMQ: BrokerController.initialRequestPipeline, AuthenticationMetadataManagerImpl.initUser (5.5.0).

    config/auth.json ─ AuthMetadata ─ native table ─ a gate in front of each listener
    RocketMQ's own ──────┘└─ AuthAdmin (requests)

The tables are kept, and requests about them answered, even while both checks are off: operators create users before they switch the checks
on.

Threads  one event loop; what the gate does is in csrc/auth/auth_table.h.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from .._core.auth import IDENTITY_DISABLED, IDENTITY_PROVEN, IDENTITY_WRONG_SIGNATURE, VERDICT_ALLOW, AuthTable, sign
from .._core.base import LogTap
from .._core.remoting import Request, Server
from ..config import Config, ConfigError, Problem
from ..remoting.client import split_address
from ..remoting.service import Handler
from .metadata import AUTH_FILE, AuthMetadata
from .native_tables import NativeTables
from .plain_acl import plain_acl_files, read_plain_acl, user_and_acl
from .requests import AuthAdmin
from .settings import AuthSettings
from .taken_tables import DIRECTORIES, read_taken_tables
from .users import SUPER, User

log = logging.getLogger(__name__)

FIRST_USER = "initAuthenticationUser"
"""Whose password an operator changes, as he should: nothing here signs with it."""
_REFUSALS = {IDENTITY_WRONG_SIGNATURE: ("has another password", "-p PASSWORD"), IDENTITY_DISABLED: ("is disabled", "-s enable")}
_NOT_SUPER = ("is no super user any more", "-t Super")


class AuthService:
    """Users and rights of one server process. `guard` each server before it starts; `begin` when the file has been read, before the first
    server starts; `close` after the servers."""

    def __init__(self, config: Config, log_tap: LogTap | None) -> None:
        """Raises ConfigError."""
        self.settings = AuthSettings.of(config)
        self._table = AuthTable(log=log_tap)
        self._table.set_options(
            authenticate=self.settings.authenticate,
            authorize=self.settings.authorize,
            cluster_name=self.settings.cluster_name,
            authentication_whitelist=self.settings.authentication_whitelist,
            authorization_whitelist=self.settings.authorization_whitelist,
        )
        self._tables = NativeTables(self._table)
        self.metadata = AuthMetadata(self._tables)

    def guard(self, server: Server) -> None:
        """Sets the server's gate. With both checks off there is none, and requests pay nothing for it."""
        if self.settings.is_on:
            server.set_gate(self._table)

    def asks_rights(self, code: int) -> bool:
        """Whether those who make a request of this code need rights."""
        return self.settings.authorize and code not in self.settings.authorization_whitelist

    def grants(self, request: Request, kind: str, name: str, action: str) -> bool:
        """Whether whoever made a request, which the gate has let in, has a right that could not be asked for before it was handled."""
        host, _ = split_address(request.remote_address)
        return self._tables.judge(request.fields.get("AccessKey", ""), kind, name, (action,), host) == VERDICT_ALLOW

    def begin(self, directory: Path) -> None:
        """Takes over RocketMQ's users and rights, makes those users that the configuration names, and logs what an operator should know.
        Raises RocketpyError, ConfigError."""
        self._take_tables(directory)
        self._make_configured_users()
        if self.settings.plain_acl_home is not None:
            self._take_over(self.settings.plain_acl_home)
        self.metadata.publish()
        self._tell_refused_users(directory / AUTH_FILE)
        for warning in self._warnings():
            log.warning("%s", warning)

    def handlers(self, save: Callable[[], Awaitable[None]], is_copy: Callable[[], bool]) -> Mapping[int, Handler]:
        return AuthAdmin(self.metadata, save, is_copy).handlers()

    def stats(self) -> dict[str, int]:
        """How many requests passed and were refused, and how many users and rights there are; empty with both checks off."""
        return self._table.stats() if self.settings.is_on else {}

    @property
    def configured_users(self) -> frozenset[str]:
        """The users that always exist, whatever happens to the others."""
        return frozenset(user.name for user in self._configured_users().values())

    def close(self) -> None:
        self._table.close()

    def _configured_users(self) -> dict[str, User]:
        """The configured users, by the key that names them."""
        credentials = self.settings.credentials
        inner = User(credentials.access_key, credentials.secret_key, SUPER) if credentials is not None else None
        both = {FIRST_USER: self.settings.first_user, "innerClientAuthenticationCredentials": inner}
        return {key: user for key, user in both.items() if user is not None}

    def _take_tables(self, directory: Path) -> None:
        """Takes RocketMQ's users where it has changed them since they were seen last, or if there are none here. Those that were made here
        before RocketMQ's tables came stay in force, also when all of them are deleted."""
        known = self.metadata.taken
        is_new = known is None and all(user.name in self.configured_users for user in self.metadata.users.list())
        try:
            found = read_taken_tables(directory)
            if found is None or found.taken == known:
                return
            if known is None and not is_new:
                self.metadata.pass_over(found.taken)
                return
            self.metadata.take(found)
        except (OSError, ValueError) as error:
            if self.settings.is_on:
                log.warning(
                    "RocketMQ's users and rights are not taken over: %s. Copy them from a broker that has them, "
                    "`mqadmin copyUser -f ITS_ADDRESS -t THIS_ADDRESS`, then `mqadmin copyAcl` likewise",
                    error,
                )
            return
        places = " and ".join(str(directory / name) for name in DIRECTORIES)
        log.info("%s: %d users and the rights of %d of them taken over from RocketMQ", places, len(found.users), len(found.acls))

    def _make_configured_users(self) -> None:
        """Creates the configured users that do not exist yet. Those that exist stay as requests have left them."""
        for key, user in self._configured_users().items():
            if self.metadata.users.get(user.name) is None:
                self.metadata.users.create(user)
                log.info("%s: super user %r is new", key, user.name)

    def _tell_refused_users(self, file: Path) -> None:
        """Signs a request as each configured user would, has the gates' table judge it, and logs what would be refused."""
        for key, user in self._configured_users().items() if self.settings.is_on else ():
            content = user.name.encode()
            identity = self._table.identify(user.name, content, sign(user.password.encode(), content))
            known = self.metadata.users.get(user.name)
            if identity == IDENTITY_WRONG_SIGNATURE and not self.settings.authenticate:
                identity = IDENTITY_PROVEN  # nobody looks at signatures
            if identity == IDENTITY_PROVEN and (not self.settings.authorize or (known is not None and known.is_super)):
                continue
            what, change = _REFUSALS.get(identity, _NOT_SUPER)
            told = f"{key}: what is signed with it is refused here: user {user.name!r} {what} ({file}), and that counts"
            if key == FIRST_USER:
                log.info("%s", told)
                continue
            remedy = f"mqadmin updateUser -b THIS_BROKER -u {shlex.quote(user.name)} {change}"
            log.warning("%s. Put it right in the configuration, or, as another super user, by `%s`", told, remedy)

    def _take_over(self, home: Path) -> None:
        """Takes over the accounts of 4.x whose users do not exist yet, each with its rights. Raises ConfigError for a file that cannot be
        read as a whole."""
        for path in plain_acl_files(home):
            try:
                found = read_plain_acl(path.read_text(encoding="utf-8"))
                accounts = [user_and_acl(each) for each in found.accounts]
            except (OSError, ValueError) as error:  # UnicodeDecodeError is a ValueError
                cause = error.strerror if isinstance(error, OSError) else error
                raise ConfigError([Problem("migrateAuthFromV1Enabled", f"{path}: {cause}")]) from None
            if found.has_white_addresses:
                log.warning("%s: addresses of white lists are not taken over: whoever comes from there needs a user", path)
            for user, acl in accounts:
                if self.metadata.users.get(user.name) is None:
                    self.metadata.users.create(user)
                    if acl is not None:
                        self.metadata.acls.update(acl)
                    log.info("%s: user %r is new", path, user.name)

    def _warnings(self) -> list[str]:
        """What an operator may not be aware of."""
        settings = self.settings
        if not settings.is_on:
            return []
        found = []
        if settings.authorize and not settings.authenticate:
            found.append("authorizationEnabled=true without authenticationEnabled: whoever names a user has that user's rights")
        if settings.authenticate and not len(self.metadata.users):
            found.append(
                "authenticationEnabled=true and there are no users, every request is refused: initAuthenticationUser makes the first; "
                "`rocketpy config auth FILE` sets it"
            )
        if settings.authenticate and settings.credentials is None:
            found.append(
                "innerClientAuthenticationCredentials is not set: brokers of this name that ask who a request is from refuse this one's; "
                "`rocketpy config auth FILE` sets it, the same for all of them with --from"
            )
        return found

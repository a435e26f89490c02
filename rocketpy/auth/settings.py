"""What the configuration says of users and rights. RocketMQ: AuthConfig, AbstractAuthenticationStrategy (5.5.0 auth/)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ..config import Config, ConfigError, Problem
from ..remoting.credentials import Credentials
from ..remoting.json_codec import JsonError, read_object
from .users import SUPER, User

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AuthSettings:
    """Read once, at the start: no request can turn the checks off while the broker runs."""

    authenticate: bool
    authorize: bool
    cluster_name: str
    authentication_whitelist: frozenset[int]
    authorization_whitelist: frozenset[int]
    first_user: User | None
    credentials: Credentials | None
    """What this broker signs its own requests with."""
    plain_acl_home: Path | None
    """RocketMQ's installation, whose plain_acl.yml is to be taken over."""

    @property
    def is_on(self) -> bool:
        return self.authenticate or self.authorize

    @staticmethod
    def of(config: Config) -> AuthSettings:
        """Raises ConfigError with all that is wrong, which shows no secret."""
        problems: list[Problem] = []

        def read(reader: Callable[[Config, str], T], name: str) -> T | None:
            try:
                return reader(config, name)
            except ConfigError as error:
                problems.extend(error.problems)
                return None

        settings = AuthSettings(
            authenticate=config.boolean("authenticationEnabled"),
            authorize=config.boolean("authorizationEnabled"),
            cluster_name=config.text("brokerClusterName"),
            authentication_whitelist=_codes(config, "authenticationWhitelist"),
            authorization_whitelist=_codes(config, "authorizationWhitelist"),
            first_user=read(_first_user, "initAuthenticationUser"),
            credentials=read(_credentials, "innerClientAuthenticationCredentials"),
            plain_acl_home=read(_plain_acl_home, "migrateAuthFromV1Enabled"),
        )
        if problems:
            raise ConfigError(problems)
        return settings


def _codes(config: Config, name: str) -> frozenset[int]:
    """The request codes of a whitelist. Names of gRPC methods, which a proxy's list may hold, have no effect here and are reported."""
    parts = [part.strip() for part in config.text(name).split(",") if part.strip()]
    codes = frozenset(int(part) for part in parts if part.isascii() and part.isdigit() and len(part) < 10)
    others = [part for part in parts if not (part.isascii() and part.isdigit() and len(part) < 10)]
    if others:
        log.warning("%s: %s: no request codes, without effect", name, ", ".join(others))
    return codes


def _first_user(config: Config, name: str) -> User | None:
    text = config.text(name)
    if not text.strip():
        return None
    try:
        user = User.from_json(read_object(text))
    except JsonError:
        raise _problem(config, name, 'is no JSON object such as {"username":"…","password":"…"}') from None
    except ValueError as error:
        raise _problem(config, name, str(error)) from None
    if not user.name.strip() or not user.password.strip():
        raise _problem(config, name, "username or password is missing")
    return User(user.name, user.password, SUPER)


def _credentials(config: Config, name: str) -> Credentials | None:
    text = config.text(name)
    if not text.strip():
        return None
    try:
        return Credentials.from_json(text)
    except ValueError as error:
        raise _problem(config, name, str(error)) from None


def _plain_acl_home(config: Config, name: str) -> Path | None:
    home = config.text("rocketmqHome")
    if config.boolean(name) and not home:
        raise _problem(config, name, "needs rocketmqHome or ROCKETMQ_HOME, below which plain_acl.yml is")
    return Path(home) if config.boolean(name) else None


def _problem(config: Config, name: str, message: str) -> ConfigError:
    return ConfigError([Problem(name, message, str(config.file or ""))])

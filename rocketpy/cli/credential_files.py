"""`rocketpy config auth`: a first user, and the credentials that servers know each other by, in the files of a cluster.

    broker.conf       authenticationEnabled, authorizationEnabled, initAuthenticationUser, innerClientAuthenticationCredentials
    rmq-proxy.json    the two switches, the latter credentials, enableAclRpcHookForClusterMode
    conf/tools.yml    accessKey and secretKey of the first user, which mqadmin signs with

What one of the files has goes into the others, what none has is made. Credentials are never replaced: two files that differ end it, before
any is written. So whoever calls it again, after it was cut short or with one more file, has the same everywhere. No secret is shown.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any, Final

from ..admin.access import TOOLS_FILE, keys_in
from ..auth.settings import AuthSettings
from ..config import ConfigError, Problem, file_bytes, load_config, properties_text
from ..config.properties import edit_properties
from ..proxy.settings import ANY_NAME_SERVER, load_settings
from ..remoting.credentials import Credentials
from ..remoting.json_codec import write_json
from ..state_file import PRIVATE, StateFile

FIRST_USER: Final = "initAuthenticationUser"
INNER: Final = "innerClientAuthenticationCredentials"
SWITCHES: Final = ("authenticationEnabled", "authorizationEnabled")
SIGNS: Final = "enableAclRpcHookForClusterMode"
INNER_NAME: Final = "inner"
SECRET_BYTES: Final = 20
"""As many as SHA-1 has. They are written as hexadecimal digits, which no format has to escape."""


@dataclass(frozen=True, slots=True)
class ClusterCredentials:
    """What the files are to have."""

    first_user: Credentials
    inner: Credentials


class BrokerFile:
    """broker.conf of a master, a slave or whatever a broker may be."""

    def __init__(self, path: Path) -> None:
        """Raises ConfigError for one that a broker would not start with."""
        self.path = path
        self.config = load_config("broker", path)
        settings = AuthSettings.of(self.config)
        user = settings.first_user
        self.first_user = Credentials(user.name, user.password) if user is not None else None
        self.inner = settings.credentials

    def with_credentials(self, wanted: ClusterCredentials) -> bytes | None:
        """What it is to hold; None where it holds that."""
        changes = {name: "true" for name in SWITCHES if not self.config.boolean(name)}
        if self.first_user is None:
            user = {"username": wanted.first_user.access_key, "password": wanted.first_user.secret_key}
            changes[FIRST_USER] = write_json(user).decode()
        if self.inner is None:
            changes[INNER] = _inner_text(wanted.inner)
        return file_bytes(edit_properties(properties_text(self.path.read_bytes()), changes)) if changes else None


class ProxyFile:
    """rmq-proxy.json."""

    first_user: Credentials | None = None

    def __init__(self, path: Path) -> None:
        """Raises ConfigError for one that a proxy would not start with, or that cannot be written again whole."""
        self.path = path
        settings, _ = load_settings(path, {"namesrvAddr": ANY_NAME_SERVER}, {})
        try:
            self._value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8-sig"))
        except ValueError:  # comments, say
            raise _problem("configFile", "is read by a proxy, but is no standard JSON: what that lacks would be lost", path) from None
        text = settings.inner_client_authentication_credentials
        try:
            self.inner = Credentials.from_json(text) if text.strip() else None
        except ValueError as error:
            raise _problem(INNER, str(error), path) from None
        self._changes = dict.fromkeys((*SWITCHES, SIGNS), True)
        if settings.authentication_enabled and settings.authorization_enabled and settings.enable_acl_rpc_hook_for_cluster_mode:
            self._changes = {}

    def with_credentials(self, wanted: ClusterCredentials) -> bytes | None:
        """As BrokerFile's."""
        changes: dict[str, Any] = {**self._changes, **({INNER: _inner_text(wanted.inner)} if self.inner is None else {})}
        return json.dumps(self._value | changes, indent=2, ensure_ascii=False).encode() + b"\n" if changes else None


class ToolsFile:
    """conf/tools.yml below ROCKETMQ_HOME. No user is taken from it: RocketMQ comes with one that has a well-known secret."""

    def __init__(self, home: Path) -> None:
        self.path = home / TOOLS_FILE
        self._text = properties_text(self.path.read_bytes()) if self.path.exists() else ""

    def with_credentials(self, wanted: ClusterCredentials) -> bytes | None:
        """As BrokerFile's. Raises ConfigError where it has another user's."""
        user = wanted.first_user
        keys = keys_in(self._text)
        if keys == {"accessKey": user.access_key, "secretKey": user.secret_key}:
            return None
        if keys:
            who = keys.get("accessKey", "nobody")
            raise _problem("accessKey", f"is {who!r}, whose credentials stay: take them out, or name another place by --home", self.path)
        if "'" in user.access_key + user.secret_key or not (user.access_key + user.secret_key).isprintable():
            raise _problem(FIRST_USER, "has a quote or a character that cannot be printed, which mqadmin would read otherwise", self.path)
        before = self._text + "\n" if self._text and not self._text.endswith("\n") else self._text
        return file_bytes(f"{before}accessKey: '{user.access_key}'\nsecretKey: '{user.secret_key}'\n")


ServerFile = BrokerFile | ProxyFile


@dataclass(frozen=True, slots=True)
class SetUp:
    """What was done."""

    lines: tuple[str, ...]
    """A file each."""
    brokers: tuple[BrokerFile, ...]
    home: Path | None
    """Where mqadmin finds its credentials."""

    def next_steps(self) -> list[str]:
        """What an operator types now."""
        steps = ["Next: start these servers again, each as its file's owner; whoever is no user is refused from then on"]
        if self.home is not None and self.brokers:
            config = self.brokers[0].config
            cluster, names = quote(config.text("brokerClusterName")), quote(config.text("namesrvAddr") or "NAME_SERVER:9876")
            create = f"rocketpy admin createUser -c {cluster} -n {names} -u NAME -p SECRET"
            steps.append(f"Users for clients: ROCKETMQ_HOME={quote(str(self.home))} {create}")
            steps.append(f"On each other host: rocketpy config auth ITS_FILE --from COPY, a copy of {self.brokers[0].path}")
        return steps


def set_up(paths: Sequence[Path], source: Path | None, home: Path | None, user: str | None) -> SetUp:
    """Raises ConfigError, with nothing written; OSError, StoreIOError, DiskFull: the files before it are, and the next call goes on."""
    servers = _read([*([source] if source is not None else []), *paths])
    given, files = (servers[:1], servers[1:]) if source is not None else ([], servers)
    for each in given:
        for key, found in ((FIRST_USER, each.first_user), (INNER, each.inner)):
            if found is None:
                raise _problem(key, "is missing: --from takes the file of a broker that has its credentials", each.path)
    brokers = tuple(each for each in files if isinstance(each, BrokerFile))
    if not brokers and not given:
        raise _problem(INNER, "are those of the brokers: name the file of one, or --from", paths[0])
    if home is None and not given:
        home = _home_of(brokers[0].path)
    tools = [ToolsFile(home)] if home is not None else []
    wanted = _agreed(servers, user)
    written: list[ServerFile | ToolsFile] = [*files, *tools]
    contents = [(each.path, each.with_credentials(wanted)) for each in written]
    return SetUp(tuple(_written(path, content) for path, content in contents), brokers, home)


def _read(paths: Iterable[Path]) -> list[ServerFile]:
    """Raises ConfigError with all that is wrong."""
    servers: list[ServerFile] = []
    problems: list[Problem] = []
    for path in paths:
        try:
            servers.append(ProxyFile(path) if path.suffix == ".json" else BrokerFile(path))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return servers


def _home_of(broker_file: Path) -> Path:
    """ROCKETMQ_HOME, or what it should be for a conf/tools.yml beside the broker's file."""
    if given := os.environ.get("ROCKETMQ_HOME"):
        return Path(given)
    directory = broker_file.absolute().parent
    return directory.parent if directory.name == Path(TOOLS_FILE).parent.name else directory


def _agreed(files: Sequence[ServerFile], user: str | None) -> ClusterCredentials:
    """Raises ConfigError where two files have different ones, or one user would have two secrets."""
    first_user = _only(FIRST_USER, [(each.first_user, each.path) for each in files])
    inner = _only(INNER, [(each.inner, each.path) for each in files])
    if first_user is not None and user not in (None, first_user.access_key):
        raise ConfigError([Problem(FIRST_USER, f"is {first_user.access_key!r} already, and --user {user}")])
    first_user = first_user or Credentials(user or "admin", secrets.token_hex(SECRET_BYTES))
    inner = inner or Credentials(INNER_NAME, secrets.token_hex(SECRET_BYTES))
    if first_user.access_key == inner.access_key and first_user.secret_key != inner.secret_key:
        raise ConfigError([Problem(FIRST_USER, f"{first_user.access_key!r} is the name of {INNER}, too: choose another, --user NAME")])
    return ClusterCredentials(first_user, inner)


def _only(key: str, found: Iterable[tuple[Credentials | None, Path]]) -> Credentials | None:
    first, place = None, Path()
    for value, path in found:
        if first is None:
            first, place = value, path
        elif value not in (None, first):
            raise _problem(key, f"is not what {place} has: take it out of the file whose credentials do not count", path)
    return first


def _written(path: Path, content: bytes | None) -> str:
    """Says what became of the file: readable by its owner alone, as the backup is of what it held before."""
    is_new = not path.exists()
    real = path.resolve()
    if not is_new:
        owner = real.stat()
        if owner.st_mode & 0o777 != PRIVATE:
            real.chmod(PRIVATE)
    if content is not None:
        StateFile(real, is_whole=not is_new, is_private=True).write_bytes(content)
        if not is_new:
            with contextlib.suppress(PermissionError):  # whoever is not root could write it as its owner alone
                os.chown(real, owner.st_uid, owner.st_gid)
    what = "new" if is_new else "has them already, not changed" if content is None else "written"
    return f"{path}: {what}; only {_owner_of(real)} reads it"


def _owner_of(path: Path) -> str:
    number = path.stat().st_uid
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def _inner_text(inner: Credentials) -> str:
    token = {} if inner.security_token is None else {"securityToken": inner.security_token}
    return write_json({"accessKey": inner.access_key, "secretKey": inner.secret_key, **token}).decode()


def _problem(key: str, message: str, path: Path) -> ConfigError:
    return ConfigError([Problem(key, message, str(path))])

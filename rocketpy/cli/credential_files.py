"""`rocketpy config auth`: a first user, and the credentials that servers know each other by, in the files of a cluster.

    broker.conf       authenticationEnabled, authorizationEnabled, initAuthenticationUser, innerClientAuthenticationCredentials
    rmq-proxy.json    the two switches, the latter credentials, enableAclRpcHookForClusterMode
    conf/tools.yml    accessKey and secretKey of the first user, which mqadmin signs with

Credentials that one of the files has are copied into the others; those that none has are made. Credentials are never replaced: if two files
differ, the command fails before it writes any. So after a second call, because the first was cut short or a file was added, all files
have the same. No secret is shown.

Every file keeps its owner. Its group may go on reading it only if nobody else could (mode 0640, say); the same holds for a file's backup.
"""

from __future__ import annotations

import grp
import json
import os
import pwd
import re
import secrets
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any, Final

from ..admin.access import TOOLS_FILE, keys_in
from ..auth.settings import AuthSettings
from ..config import ConfigError, Problem, file_bytes, load_config, properties_text
from ..config.properties import edit_properties, read_properties
from ..proxy.settings import ANY_NAME_SERVER, load_settings
from ..remoting.credentials import Credentials
from ..remoting.json_codec import write_json
from ..state_file import PRIVATE, StateFile
from .place import existing

FIRST_USER: Final = "initAuthenticationUser"
INNER: Final = "innerClientAuthenticationCredentials"
SWITCHES: Final = ("authenticationEnabled", "authorizationEnabled")
SIGNS: Final = "enableAclRpcHookForClusterMode"
INNER_NAME: Final = "inner"
SECRET_BYTES: Final = 20
"""As many bytes as a SHA-1 has. They are written as hexadecimal digits, which no format has to escape."""
OTHERS: Final = 0o007
_SCALAR = r"""(?:'[^']*'|"[^"\\]*"|(?:[^\s'"\[\]{},#&*!|>%@`?:-]|[?:-](?=\S))(?:[^:#\t]|:(?=\S)|(?<=\S)#)*?)"""
_TOOLS_LINE = re.compile(rf" *(?:#.*)?|(?P<name>[A-Za-z_][\w.-]*):(?: +{_SCALAR})? *(?: #.*)?", re.ASCII)
"""Of tools.yml, what cannot be read in two ways: a name at the begin of its line and a value in it, a comment. SnakeYAML takes no tabs."""
_NOT_OF_YAML = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class ClusterCredentials:
    """The credentials that the files shall contain."""

    first_user: Credentials
    inner: Credentials


class BrokerFile:
    """The broker.conf of a broker in any role."""

    def __init__(self, path: Path) -> None:
        """Raises ConfigError for a file that a broker would not start with, or that gives one of the credentials twice."""
        self.path = path
        self.config = load_config("broker", path, is_of_another_machine=True)
        settings = AuthSettings.of(self.config)
        self._text = properties_text(path.read_bytes())
        places = {key: [entry.line for entry in read_properties(self._text) if entry.key == key] for key in (FIRST_USER, INNER)}
        if twice := [key for key, lines in places.items() if len(lines) > 1]:
            raise ConfigError(
                Problem(key, f"stands in line {places[key][0]}, too: take out what does not count", str(path), places[key][-1])
                for key in twice
            )
        user = settings.first_user
        self.first_user = Credentials(user.name, user.password) if user is not None else None
        self.inner = settings.credentials

    def with_credentials(self, wanted: ClusterCredentials) -> bytes | None:
        """The new content of the file; None if it has the credentials already."""
        changes = {name: "true" for name in SWITCHES if not self.config.boolean(name)}
        if self.first_user is None:
            user = {"username": wanted.first_user.access_key, "password": wanted.first_user.secret_key}
            changes[FIRST_USER] = write_json(user).decode()
        if self.inner is None:
            changes[INNER] = _inner_text(wanted.inner)
        return file_bytes(edit_properties(self._text, changes)) if changes else None


_ELSEWHERE: Final = {"namesrvAddr": ANY_NAME_SERVER}
"""Values that a proxy's command line may supply."""


class ProxyFile:
    """rmq-proxy.json."""

    first_user: Credentials | None = None

    def __init__(self, path: Path) -> None:
        """Raises ConfigError for a file that a proxy would not start with, missing signing credentials excepted, or that cannot be written
        back without loss."""
        self.path = path
        settings, _ = load_settings(path, _ELSEWHERE, {SIGNS: False})
        self._value = _standard_object(path)
        text = settings.inner_client_authentication_credentials
        try:
            self.inner = Credentials.from_json(text) if text.strip() else None
        except ValueError as error:
            raise _problem(INNER, str(error), path) from None
        if self.inner is not None:
            settings, _ = load_settings(path, _ELSEWHERE, {})
        self._changes = dict.fromkeys((*SWITCHES, SIGNS), True)
        if settings.authentication_enabled and settings.authorization_enabled and settings.enable_acl_rpc_hook_for_cluster_mode:
            self._changes = {}

    def with_credentials(self, wanted: ClusterCredentials) -> bytes | None:
        """As BrokerFile.with_credentials."""
        changes: dict[str, Any] = {**self._changes, **({INNER: _inner_text(wanted.inner)} if self.inner is None else {})}
        return _json_bytes(self._value | changes) if changes else None


class ToolsFile:
    """conf/tools.yml below ROCKETMQ_HOME. Its user is never adopted: RocketMQ ships the file with a well-known secret."""

    def __init__(self, home: Path) -> None:
        """Raises ConfigError for a file that cannot be read, or in which mqadmin may find other credentials than this code does."""
        self.path = home / TOOLS_FILE
        try:
            self._text = properties_text(self.path.read_bytes()) if self.path.exists() else ""
        except OSError as error:
            raise _problem("accessKey", f"cannot be read: {error.strerror}", self.path) from error
        seen: set[str] = set()
        for number, line in enumerate(self._text.splitlines(), start=1):
            found = None if _NOT_OF_YAML.search(line) else _TOOLS_LINE.fullmatch(line)
            name = found["name"] if found is not None else line if line == "---" and not seen else ""
            if name == "" or name in seen:
                what = "is a name that stands twice" if name else "is no line such as `name: value`"
                message = f"{what}: what is added here might be read otherwise; put that in order, or name another place by --home"
                raise ConfigError([Problem("accessKey", message, str(self.path), number)])
            seen.update([name] if name is not None else [])

    def with_credentials(self, wanted: ClusterCredentials) -> bytes | None:
        """As BrokerFile.with_credentials. Raises ConfigError if the file has another user's credentials."""
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
    """The planned changes. They are planned only if no visible obstacle would stop them half-way."""

    contents: tuple[tuple[Path, bytes | None], ...]
    brokers: tuple[BrokerFile, ...]
    source: Path | None
    home: Path | None
    """Where mqadmin finds its credentials."""

    def write(self) -> Iterator[str]:
        """Writes the files and reports, one by one, what became of each. Raises OSError, StoreIOError, DiskFull; the files before the
        failing one stay written."""
        for path, content in self.contents:
            yield _written(path, content)

    def next_steps(self) -> list[str]:
        """The commands that the operator types next."""
        steps = []
        if self.source is not None and self.source.stat().st_mode & OTHERS:
            steps.append(f"{self.source} has the same secrets, and others can read it: remove it, or chmod 600 {quote(str(self.source))}")
        steps.append("Next: start these servers again, each as its file's owner; whoever is no user is refused from then on")
        if self.home is not None and self.brokers:
            config = self.brokers[0].config
            cluster, names = quote(config.text("brokerClusterName")), quote(config.text("namesrvAddr") or "NAME_SERVER:9876")
            create = f"rocketpy admin createUser -c {cluster} -n {names} -u NAME -p SECRET"
            steps.append(f"Users for clients: ROCKETMQ_HOME={quote(str(self.home))} {create}")
            steps.append(f"On each other host: rocketpy config auth ITS_FILE --from COPY, a copy of {self.brokers[0].path}")
        return steps


def set_up(paths: Sequence[Path], source: Path | None, home: Path | None, user: str | None) -> SetUp:
    """Reads all files and plans the changes; writes nothing. Raises ConfigError."""
    given = _read([source] if source is not None else [])
    files = list({each.path.resolve(): each for each in _read(paths)}.values())  # by two names one file is written once
    servers = [*given, *files]
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
    contents = tuple((each.path, each.with_credentials(wanted)) for each in written)
    if problems := [problem for path, content in contents for problem in _obstacles(path, content)]:
        raise ConfigError(problems)
    return SetUp(contents, brokers, source, home)


def _read(paths: Iterable[Path]) -> list[ServerFile]:
    """Reads the files. Raises one ConfigError with everything that is wrong."""
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
    """ROCKETMQ_HOME, or what it would have to be for the conf/tools.yml beside the broker's file."""
    if given := os.environ.get("ROCKETMQ_HOME"):
        return Path(given)
    directory = broker_file.absolute().parent
    return directory.parent if directory.name == Path(TOOLS_FILE).parent.name else directory


def _agreed(files: Sequence[ServerFile], user: str | None) -> ClusterCredentials:
    """The credentials that all files have in common. Raises ConfigError if two files differ, or if one user would have two secrets."""
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


def _obstacles(path: Path, content: bytes | None) -> Iterator[Problem]:
    """What would stop the writing half-way."""
    real, user = path.resolve(), os.geteuid()
    if path.exists():
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            yield Problem("configFile", "is no regular file", str(path))
        elif user not in (0, found.st_uid) and (content is not None or found.st_mode & OTHERS):
            yield Problem("configFile", f"belongs to {_user(found.st_uid)}: call this as its owner, or as root", str(path))
        elif user and content is not None and found.st_gid not in (os.getegid(), *os.getgroups()):
            yield Problem("configFile", f"belongs to {_group(found.st_gid)}, which this user is not of: call this as root", str(path))
    place = existing(real.parent)
    if place != real.parent and os.path.lexists(place / real.parent.relative_to(place).parts[0]):
        yield Problem("configFile", f"{place / real.parent.relative_to(place).parts[0]} is not a directory", str(path))
    elif content is not None and not os.access(place, os.W_OK | os.X_OK):
        yield Problem("configFile", f"{place} cannot be written by this user", str(path))
    yield from _obstacles_beside(real, content)


def _obstacles_beside(real: Path, content: bytes | None) -> Iterator[Problem]:
    """Obstacles among the files that the writing leaves beside this one, and the backup whose permissions are restricted with it."""
    user = os.geteuid()
    for end in (".bak", ".bak.tmp", ".tmp") if content is not None else (".bak",):
        beside = real.with_name(real.name + end)
        try:
            found, directory = beside.lstat(), beside.parent.stat()
        except OSError:  # not there, or the file's own obstacle
            continue
        is_sticky = directory.st_mode & stat.S_ISVTX and user not in (0, found.st_uid, directory.st_uid)
        is_closed = not found.st_mode & OTHERS and os.access(beside, os.R_OK)
        if stat.S_ISDIR(found.st_mode) or (content is None and not stat.S_ISREG(found.st_mode)):
            yield Problem("configFile", f"{beside} is no regular file: move it away", str(real))
        elif is_sticky if content is not None else user not in (0, found.st_uid) and not is_closed:
            yield Problem("configFile", f"{beside} belongs to {_user(found.st_uid)}: move it away, or call this as root", str(real))


def _written(path: Path, content: bytes | None) -> str:
    """Writes one file and says what became of it."""
    real = path.resolve()
    before = _closed(real) if path.exists() else None
    if content is not None:
        owner = None if before is None else (before.st_uid, before.st_gid)
        StateFile(real, is_whole=before is not None, is_private=before is None, owner=owner).write_bytes(content)
    elif (backup := real.with_name(real.name + ".bak")).exists():
        _closed(backup)
    what = "new" if before is None else "has them already, not changed" if content is None else "written"
    return f"{path}: {what}; {_readers_of(real)}{', which others could before' if before is not None and before.st_mode & OTHERS else ''}"


def _closed(path: Path) -> os.stat_result:
    """Restricts a file that is open to everybody to its owner; one that is open to its group only stays as it is. Returns its former
    status."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        before = os.fstat(descriptor)
        if before.st_mode & OTHERS:
            os.fchmod(descriptor, PRIVATE)
        return before
    except OSError as error:
        error.filename = str(path)
        raise
    finally:
        os.close(descriptor)


def _readers_of(path: Path) -> str:
    found = path.stat()
    if found.st_mode & stat.S_IRGRP:
        return f"only {_user(found.st_uid)} and {_group(found.st_gid)} read it"
    return f"only {_user(found.st_uid)} reads it"


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def _group(number: int) -> str:
    try:
        return f"group {grp.getgrgid(number).gr_name}"
    except KeyError:
        return f"group {number}"


def _standard_object(path: Path) -> dict[str, Any]:
    """The JSON object of a proxy's file. Raises ConfigError for content that could not be written back unchanged."""

    def whole(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) < len(pairs):
            ((name, _),) = Counter(name for name, _ in pairs).most_common(1)
            raise _problem("configFile", f"{name!r} stands twice in one object: take out what does not count", path)
        return members

    try:
        value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8-sig"), object_pairs_hook=whole)
    except ConfigError:
        raise
    except (ValueError, RecursionError):  # comments, say
        raise _problem("configFile", "is read by a proxy, but is no standard JSON: what that lacks would be lost", path) from None
    try:
        _json_bytes(value)
    except (ValueError, RecursionError):
        message = "has a number that JSON has not (NaN, or 1e400, which is too large), or is too deep: it could not be written again"
        raise _problem("configFile", message, path) from None
    return value


def _json_bytes(value: dict[str, Any]) -> bytes:
    return json.dumps(value, indent=2, allow_nan=False).encode() + b"\n"


def _inner_text(inner: Credentials) -> str:
    token = {} if inner.security_token is None else {"securityToken": inner.security_token}
    return write_json({"accessKey": inner.access_key, "secretKey": inner.secret_key, **token}).decode()


def _problem(key: str, message: str, path: Path) -> ConfigError:
    return ConfigError([Problem(key, message, str(path))])

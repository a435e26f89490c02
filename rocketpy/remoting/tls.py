"""TLS of listeners and of outgoing connections: what the keys ask for, what is made of it, and certificates that are read again.
RocketMQ: TlsSystemConfig, TlsHelper (5.3.3 remoting/netty/), FileWatchService (srvutil/).

    keys, tls.config.file ─ TlsSettings ─┬─ ListenerTls ─► Server.load_tls, again when a file changes
                                         └─ client_context ─► RemotingClient

Threads  one event loop; files are read in its executor. Bounds: three files are looked at each WATCH_INTERVAL_S.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .._core.errors import InvalidArgument, RocketpyError
from .._core.options import TlsOptions
from .._core.remoting import Server
from ..config import Config, ConfigError, Problem, Value, properties_text, read_properties

log = logging.getLogger(__name__)

MODES = ("disabled", "permissive", "enforcing")
CLIENT_AUTH = ("none", "optional", "require")
WATCH_INTERVAL_S = 0.5
IN_FILE = (
    "tls.test.mode.enable",
    "tls.server.need.client.auth",
    "tls.server.keyPath",
    "tls.server.keyPassword",
    "tls.server.certPath",
    "tls.server.authClient",
    "tls.server.trustCertPath",
    "tls.client.keyPath",
    "tls.client.keyPassword",
    "tls.client.certPath",
    "tls.client.authServer",
    "tls.client.trustCertPath",
)
"""Keys that tls.config.file may set."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What one side presents, and whom it trusts: paths of PEM files, empty if there is none."""

    certificate: str
    key: str
    password: str
    verifies: bool
    trust: str

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(path for path in (self.certificate, self.key, self.trust) if path)


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """The values of the TLS keys that are in force."""

    mode: str
    is_test: bool
    client_auth: str
    server: Credentials
    client: Credentials

    def listener_options(self) -> TlsOptions:
        """The options of a listener. In test mode no client is asked for a certificate."""
        if self.is_test:
            return {}
        server = self.server
        return {
            "certificate_path": server.certificate or None,
            "key_path": server.key or None,
            "key_password": server.password or None,
            "trust_path": server.trust or None,
            "client_auth": CLIENT_AUTH.index(self.client_auth),
            "verifies_clients": int(server.verifies),
        }


def tls_mode(config: Config) -> int:
    """The mode as rp_tls_mode (csrc/remoting/server.h)."""
    return MODES.index(config.text("tls.server.mode"))


def tls_settings(config: Config) -> TlsSettings:
    """Reads the keys; the values in tls.config.file take precedence. Raises ConfigError for the contents of that file."""
    values: dict[str, Value] = {
        name: config.boolean(name) if config.table[name].kind == "boolean" else config.text(name) for name in IN_FILE
    }
    values |= _file_values(config, Path(config.text("tls.config.file")))
    is_test = values["tls.test.mode.enable"] is True

    def credentials(side: str, verifies: str) -> Credentials:
        certificate, key, password, trust = (
            str(values[f"tls.{side}.{name}"] or "") for name in ("certPath", "keyPath", "keyPassword", "trustCertPath")
        )
        return Credentials(certificate, key, password, values[verifies] is True, trust)

    settings = TlsSettings(
        mode=config.text("tls.server.mode"),
        is_test=is_test,
        client_auth=str(values["tls.server.need.client.auth"]),
        server=credentials("server", "tls.server.authClient"),
        client=credentials("client", "tls.client.authServer"),
    )
    if is_test and (idle := settings.server.files + settings.client.files):
        log.warning("tls.test.mode.enable is true, its default: %s not used; set it to false", " and ".join(idle))
    return settings


def _file_values(config: Config, path: Path) -> dict[str, Value]:
    """The values in tls.config.file. As in RocketMQ, a missing file is ignored."""
    try:
        entries = read_properties(properties_text(path.read_bytes()))
    except OSError as error:
        if config.is_given("tls.config.file"):
            log.warning("tls.config.file %s is not used: %s", path, error.strerror)
        return {}
    values: dict[str, Value] = {}
    problems: list[Problem] = []
    for entry in entries:
        if entry.key not in IN_FILE:
            log.warning("%s:%d: %s is not a key of this file and has no effect", path, entry.line, entry.key)
            continue
        try:
            values[entry.key] = config.parse(entry.key, entry.value)
        except ConfigError as error:
            problems += [Problem(problem.key, problem.message, str(path), entry.line) for problem in error.problems]
    if problems:
        raise ConfigError(problems)
    return values


# ---- outgoing connections ----


def client_context(config: Config, settings: TlsSettings) -> ssl.SSLContext | None:
    """The TLS context of outgoing connections; None if they are not encrypted. Raises InvalidArgument that names the file which cannot be
    used."""
    by_default = config.boolean("tls.enable") or settings.mode == "enforcing"
    if not config.is_given("useTLS"):
        config.override("useTLS", by_default)
    if not config.boolean("useTLS"):
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False  # as RocketMQ's: a route names its brokers by their addresses
    context.verify_mode = ssl.CERT_NONE
    client = settings.client
    if settings.is_test:
        return context
    if client.verifies:
        context.verify_mode = ssl.CERT_REQUIRED
        _use("tls.client.trustCertPath", client.trust, lambda: _trust(context, client.trust))
    if client.certificate:
        _use("tls.client.certPath", client.certificate, lambda: _show(context, client))
    return context


def _trust(context: ssl.SSLContext, path: str) -> None:
    if path:
        context.load_verify_locations(path)
    else:
        context.load_default_certs()


def _show(context: ssl.SSLContext, client: Credentials) -> None:
    context.load_cert_chain(client.certificate, client.key or None, password=client.password)  # with None, ssl asks the terminal


def _use(key: str, path: str, load: Callable[[], None]) -> None:
    try:
        load()
    except OSError as error:  # ssl.SSLError is one: no PEM, another key's certificate, a wrong password
        cause = error.reason if isinstance(error, ssl.SSLError) else error.strerror
        raise InvalidArgument(f"{key}={path} cannot be used: {cause or error}") from error


# ---- listeners ----


class FileWatch:
    """Decides when files have to be read again: all exist, they differ from what was read, and they were the same at two looks in a row. So
    a certificate and its key, which are copied one after the other, are read together. No I/O: looks go in, decisions come out."""

    def __init__(self, read: Sequence[object]) -> None:
        self._read = self._seen = tuple(read)

    def is_due(self, look: Sequence[object]) -> bool:
        """`look`: a mark of each file's content, None for a file that does not exist."""
        before, self._seen = self._seen, tuple(look)
        if None in self._seen or self._seen == self._read or self._seen != before:
            return False
        self._read = self._seen
        return True


def look_at(paths: Sequence[str]) -> tuple[object, ...]:
    """A mark of each file, which changes when the file, or the one that a link leads to, is replaced."""
    return tuple(_mark(path) for path in paths)


def _mark(path: str) -> tuple[int, int, int, int] | None:
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


class ListenerTls:
    """Certificate, key and trust of all listeners of one process."""

    def __init__(self, settings: TlsSettings, servers: Sequence[Server]) -> None:
        self.settings = settings
        self._servers = servers
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Reads the files, and watches them from now on. Raises what Server.load_tls raises, and ConfigError if clients that were promised
        TLS would not get it."""
        settings = self.settings
        files = () if settings.mode == "disabled" or settings.is_test else settings.server.files
        loop = asyncio.get_running_loop()
        look = await loop.run_in_executor(None, look_at, files)
        await loop.run_in_executor(None, self._load_first)
        if files:
            self._watching = loop.create_task(self._watch(files, FileWatch(look)), name="certificates")

    async def stop(self) -> None:
        """Idempotent."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
            self._watching = None

    def _load_first(self) -> None:
        settings = self.settings
        is_promised = settings.mode == "enforcing" or (not settings.is_test and settings.server.files)
        if settings.mode == "disabled":
            return
        if not settings.is_test and not settings.server.certificate:
            what = "names no certificate, and tls.test.mode.enable=false makes none"
            if is_promised:
                raise ConfigError([Problem("tls.server.certPath", what)])
            log.error("Failed to create SSLContext for server: tls.server.certPath %s", what)
            return
        try:
            self._load_all()
        except RocketpyError as error:
            if is_promised:
                raise
            log.warning("clients cannot speak TLS: %s", error)

    def _load_all(self) -> None:
        for server in self._servers:
            server.load_tls(**self.settings.listener_options())

    async def _watch(self, files: Sequence[str], watch: FileWatch) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(WATCH_INTERVAL_S)
            if not watch.is_due(await loop.run_in_executor(None, look_at, files)):
                continue
            try:
                await loop.run_in_executor(None, self._load_all)
            except (RocketpyError, OSError) as error:  # the files may be mended; until then the ones before are in force
                log.warning("the certificate files changed and cannot be used, the ones before stay: %s", error)
            else:
                log.info("the certificate, private key or trust certificate changed: reloaded")

"""docs/configuration.md, made from the tables: `python -m rocketpy.config.document > docs/configuration.md`."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from .keys import Key
from .keys_broker import BROKER_KEYS
from .keys_namesrv import AUTH_KEYS, CONTROLLER_KEYS, NAMESRV_KEYS
from .keys_network import CLIENT_KEYS, OWN_KEYS, TLS_KEYS, server_keys
from .keys_store import STORE_KEYS

HEAD = """# Configuration

Made from the tables in `rocketpy/config/keys_*.py` by `python -m rocketpy.config.document`; do not edit.

Names, defaults and units are RocketMQ's (5.5.0); a file written for RocketMQ works here. Files are Java's `.properties`: `key = value`,
`#` begins a comment. Values are trimmed at both ends. Files are UTF-8. RocketMQ reads them as ISO-8859-1 and so sees another value
where one has characters beyond ASCII, in a path for example; the start names both values. `\\uXXXX` means the same to both, and is
what an update writes.

* A bad value ends the start: every bad line at once, as `FILE:LINE: KEY: 'VALUE' is not valid: expected …`.
* An unknown key is kept (`getBrokerConfig` shows it) and reported once, with the nearest known name.
* The command line (`-n`, `-o KEY=VALUE`) wins over the file, the file over the environment (`NAMESRV_ADDR`, `ROCKETMQ_HOME`).
* `-p` prints every value in force, `-m` the important ones.
* **live**: changes at run time take effect at once (`mqadmin updateBrokerConfig`, `updateNamesrvConfig`, or SIGHUP after editing the
  file). Others are checked, stored in the file and take effect at the next start. An update with one bad value changes nothing.
* Keys that RocketMQ has and that change nothing here are listed with the reason; setting one is reported once at start. So is a key
  of something that this release does not have yet ("Not in this release" below). But a switch for something that people rely on
  (ACL of 4.x, RocksDB) and that this release does not have refuses the start.
"""


def render() -> str:
    """The text of docs/configuration.md."""
    sections = (
        ("Broker", "RocketMQ: BrokerIdentity, BrokerConfig.", BROKER_KEYS),
        ("Message store, replication, delayed messages", "RocketMQ: MessageStoreConfig.", STORE_KEYS),
        ("Name server", "RocketMQ: NamesrvConfig.", NAMESRV_KEYS),
        ("Listener", "RocketMQ: NettyServerConfig. `listenPort` is 9876 for a name server, 10911 for a broker.", server_keys(10911)),
        ("Outgoing connections", "RocketMQ: NettyClientConfig.", CLIENT_KEYS),
        ("TLS", "RocketMQ: TlsSystemConfig, where they are system properties (`-Dtls.server.mode=…`).", TLS_KEYS),
        ("rocketpy's own", "RocketMQ knows none of these and ignores them.", OWN_KEYS),
        (
            "Controller",
            "RocketMQ: ControllerConfig, JraftConfig. Also of a name server with `enableControllerInNamesrv=true`.",
            CONTROLLER_KEYS,
        ),
        ("Users and rights", "RocketMQ: AuthConfig.", AUTH_KEYS),
    )
    return HEAD + "".join("".join(_section(*section)) for section in sections)


def is_read(key: Key) -> bool:
    """Whether a source file of this package, other than the tables themselves, names the key."""
    return f'"{key.name}"' in _sources()


@functools.cache
def _sources() -> str:
    package = Path(__file__).resolve().parent.parent
    files = (path for path in package.rglob("*.py") if not path.name.startswith("keys_") and path != Path(__file__).resolve())
    return "".join(path.read_text(encoding="utf-8") for path in sorted(files))


def _section(title: str, origin: str, keys: Iterable[Key]) -> Iterator[str]:
    working = [key for key in keys if not key.idle and is_read(key)]
    missing = [key for key in keys if not key.idle and not is_read(key)]
    idle = [key for key in keys if key.idle]
    yield f"\n## {title}\n\n{origin}\n"
    if working:
        yield "\n| key | default | value | |\n| --- | --- | --- | --- |\n"
    for key in working:
        live = " **live**" if key.live or key.live_among else ""
        if key.live_among:
            live += f" between {' and '.join(key.live_among)}"
        yield f"| `{key.name}` | {_default(key)} | {_cell(key.expected)} | {_cell(key.help)}{live} |\n"
    if missing:
        yield "\nNot in this release, checked and kept:\n\n| key | default | value | |\n| --- | --- | --- | --- |\n"
        for key in missing:
            yield f"| `{key.name}` | {_default(key)} | {_cell(key.expected)} | {_cell(key.help)} |\n"
    if idle:
        yield "\nWithout effect here:\n\n| key | because |\n| --- | --- |\n"
        for key in idle:
            yield f"| `{key.name}` | {_cell(key.idle)} |\n"


def _default(key: Key) -> str:
    if callable(key.default):
        return _COMPUTED.get(key.name, "computed")
    return f"`{key.format(key.default)}`" if key.default not in (None, "") else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


_COMPUTED = {
    "brokerName": "host name",
    "brokerIP1": "this machine's address",
    "brokerIP2": "this machine's address",
    "namesrvAddr": "`$NAMESRV_ADDR`",
    "rocketmqHome": "`$ROCKETMQ_HOME`",
    "storePathRootDir": "`~/store`",
    "kvConfigPath": "`~/namesrv/kvConfig.json`",
    "configStorePath": "the file given with -c",
    "memory": "the machine's, or less by its cgroup",
}

if __name__ == "__main__":
    sys.stdout.write(render())

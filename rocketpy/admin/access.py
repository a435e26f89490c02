"""The user in whose name a command speaks, and how it connects: credentials and TLS.
RocketMQ: AclUtils.getAclRPCHook, TlsSystemConfig (5.5.0).

    ROCKETMQ_ACCESS_KEY, ROCKETMQ_SECRET_KEY     first, together
    $ROCKETMQ_HOME/conf/tools.yml                accessKey: and secretKey:, as mqadmin has it

Neither is ever printed, nor are they part of an error.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path

from ..remoting.credentials import Credentials
from .errors import UsageError

KEY_NAMES = ("accessKey", "secretKey")
TOOLS_FILE = "conf/tools.yml"


def keys_in(text: str) -> dict[str, str]:
    """accessKey and secretKey from a YAML file that has them at its top level, quoted or not."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if not colon or name not in KEY_NAMES:
            continue
        value = value.strip()
        found[name] = _unquoted(value)
    return found


def _unquoted(value: str) -> str:
    if value[:1] in ("'", '"') and value[0] in value[1:]:
        return value[1 : value.index(value[0], 1)]
    return value.partition(" #")[0].strip()


def credentials_of(environment: Mapping[str, str]) -> Credentials | None:
    """The configured credentials; None if there are none. Raises UsageError if only one of the two is set, OSError for a file that cannot
    be read."""
    names = ("ROCKETMQ_ACCESS_KEY", "ROCKETMQ_SECRET_KEY")
    given = [environment.get(name, "") for name in names]
    if any(given):
        return _whole(given[0], given[1], " and ".join(names))
    home = environment.get("ROCKETMQ_HOME", "")
    path = Path(home) / TOOLS_FILE
    if not home or not path.is_file():
        return None
    keys = keys_in(path.read_text(encoding="utf-8", errors="replace"))
    return _whole(keys.get("accessKey", ""), keys.get("secretKey", ""), str(path)) if keys else None


def _whole(access_key: str, secret_key: str, where: str) -> Credentials:
    if not access_key or not secret_key:
        raise UsageError(f"{where}: both an access key and a secret key are needed")
    return Credentials(access_key, secret_key)


def tls_context() -> ssl.SSLContext | None:
    """The TLS context according to the keys tls.client.* in tls.config.file, by default /etc/rocketmq/tls.properties. Raises ConfigError,
    InvalidArgument."""
    from ..config import load_config
    from ..remoting.tls import client_context, tls_settings

    config = load_config("broker", None, {"useTLS": "true"})
    return client_context(config, tls_settings(config))

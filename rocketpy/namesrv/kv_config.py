"""Small texts by namespace and key, kept in one file: order configurations of topics, settings of other tools.
RocketMQ: KVConfigManager, KVConfigSerializeWrapper (5.3.3 namesrv/kvconfig/). File: {"configTable":{namespace:{key:value}}}.

A change is on disk before it is answered. RocketMQ writes in place without syncing and goes on with an empty table when it cannot read the
file; here StateFile replaces it atomically, falls back to `.bak`, and keeps a damaged file aside.

Threads  changes: one at a time, from any thread; `on_change` is called in that thread. Everything else: any thread.
Bounds   ENTRIES_MAX entries, TEXT_MAX characters each, FILE_MAX in all.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..remoting.json_codec import read_object, write_fastjson, write_json
from ..state_file import StateFile

log = logging.getLogger(__name__)

ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"
"""Namespace of order configurations: topic → "broker-a:4;broker-b:4"."""
ENTRIES_MAX = 100_000
TEXT_MAX = 1024 * 1024
FILE_MAX = 64 * 1024 * 1024
"""Characters of the file, which every change writes again."""


class KvConfigFull(ValueError):
    """The table or an entry is larger than this name server accepts."""


class KvConfig:
    """The table, which is replaced as a whole at each change, and its file. `on_change` is called with the namespace once a change is on
    disk."""

    def __init__(self, path: str | Path, on_change: Callable[[str], None] = lambda namespace: None) -> None:
        self._file = StateFile(path)
        self._on_change = on_change
        self._table: dict[str, dict[str, str]] = {}

    def load(self) -> None:
        """Reads the file. A missing file is an empty table; in place of a damaged one its backup is read. Raises StoreIOError for one that
        cannot be read."""
        self._table = self._file.read(_decode) or {}

    def get(self, namespace: str, key: str) -> str | None:
        return self._table.get(namespace, {}).get(key)

    def namespace(self, namespace: str) -> dict[str, str] | None:
        """All entries of a namespace; None if the namespace was never used."""
        table = self._table.get(namespace)
        return dict(table) if table is not None else None

    def put(self, namespace: str, key: str, value: str) -> None:
        """Sets an entry. Raises KvConfigFull, StoreIOError, DiskFull; the table is then unchanged."""
        if max(len(namespace), len(key), len(value)) > TEXT_MAX:
            raise KvConfigFull(f"namespace, key or value is longer than {TEXT_MAX} characters")
        table = self._table.get(namespace, {})
        if key not in table and sum(map(len, self._table.values())) >= ENTRIES_MAX:
            raise KvConfigFull(f"{ENTRIES_MAX} entries are kept at most")
        changed = {**self._table, namespace: {**table, key: value}}
        text = _encode(changed)
        if len(text) > FILE_MAX:
            raise KvConfigFull(f"{FILE_MAX} characters are kept at most in all; delete entries that are not needed")
        self._replace(namespace, changed, text)
        log.info("putKVConfig %s config item, Namespace: %s Key: %s Value: %s", "update" if key in table else "new", namespace, key, value)

    def delete(self, namespace: str, key: str) -> None:
        """Removes an entry, if it is there. Raises StoreIOError, DiskFull; the table is then unchanged."""
        table = self._table.get(namespace)
        if table is None or key not in table:
            return
        changed = {**self._table, namespace: {name: value for name, value in table.items() if name != key}}
        self._replace(namespace, changed, _encode(changed))
        log.info("deleteKVConfig delete a config item, Namespace: %s Key: %s Value: %s", namespace, key, table[key])

    def _replace(self, namespace: str, changed: dict[str, dict[str, str]], text: str) -> None:
        self._file.write(text)
        self._table = changed
        self._on_change(namespace)


def _encode(table: dict[str, dict[str, str]]) -> str:
    return json.dumps({"configTable": table}, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def _decode(text: str) -> dict[str, dict[str, str]]:
    """The table in the bytes of a file. Raises ValueError (JsonError is one)."""
    table: Any = read_object(text, tolerant_max=None).get("configTable")
    if table is None:
        return {}
    if not isinstance(table, dict) or not all(isinstance(entries, dict) for entries in table.values()):
        raise ValueError("configTable: expected objects in an object")
    return {str(name): {str(key): _text(each) for key, each in entries.items() if each is not None} for name, entries in table.items()}


def _text(value: Any) -> str:
    """A value as text, as fastjson makes it: anything that is not a text becomes its JSON."""
    return value if isinstance(value, str) else write_fastjson(value).decode()


def encode_table(table: dict[str, str]) -> bytes:
    """RocketMQ: KVTable, the body of GET_KVLIST_BY_NAMESPACE and of registrations' answers."""
    return write_json({"table": table})

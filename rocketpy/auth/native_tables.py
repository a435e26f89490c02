"""The native gate's tables of users and rights. They are written in the same call as Python's tables, and take effect with `publish`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from .._core.auth import AuthTable
from .._core.results import AclEntry
from .acls import DENY, PolicyEntry
from .resources import ACTIONS, ANY, LITERAL, PREFIXED, RESOURCE_TYPES

_TYPE_CODES: Final = {name: code for code, name in enumerate(RESOURCE_TYPES)}
_PATTERN_CODES: Final = {ANY: 1, LITERAL: 2, PREFIXED: 3}
_ACTION_BITS: Final = {name: 1 << code for code, name in enumerate(ACTIONS)}


class NativeTables:
    """The sink of UserTable and AclTable."""

    def __init__(self, table: AuthTable) -> None:
        self._table = table

    def put_user(self, name: str, password: str, is_super: bool, is_enabled: bool) -> None:
        self._table.put_user(name, password.encode(), is_super=is_super, is_enabled=is_enabled)

    def delete_user(self, name: str) -> None:
        self._table.delete_user(name)

    def put_acl(self, user: str, custom: Sequence[PolicyEntry], default: Sequence[PolicyEntry]) -> None:
        self._table.put_acl(user, [*_native(custom, is_default=False), *_native(default, is_default=True)])

    def delete_acl(self, user: str) -> None:
        self._table.delete_acl(user)

    def judge(self, user: str, kind: str, name: str, actions: Sequence[str], source: str) -> int:
        """The verdict on a right, a VERDICT_ constant of the core, according to what was put; one of the right's actions is enough. source:
        an address."""
        return self._table.judge(user, _TYPE_CODES[kind], name, sum(_ACTION_BITS[action] for action in actions), source)

    def publish(self) -> None:
        """Raises NoMemory; what was put then takes effect at the next call."""
        self._table.publish()


def _native(entries: Sequence[PolicyEntry], *, is_default: bool) -> Iterator[AclEntry]:
    """The entries without those that match nothing: resources of an unknown type, actions with an unknown name."""
    for entry in entries:
        actions = sum(_ACTION_BITS[action] for action in entry.actions if action != ACTIONS[0])
        if entry.resource.type != RESOURCE_TYPES[0] and actions:
            resource = entry.resource
            yield AclEntry(
                is_default=is_default,
                resource_type=_TYPE_CODES[resource.type],
                pattern=_PATTERN_CODES[resource.pattern],
                name=resource.name,
                actions=actions,
                sources=entry.source_ips,
                is_deny=entry.decision == DENY,
            )

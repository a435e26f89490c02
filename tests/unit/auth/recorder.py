"""In place of the native tables: what was put there, and how often it was made to count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rocketpy._core.errors import NoMemory
from rocketpy.auth.acls import PolicyEntry


class Recorder:
    def __init__(self) -> None:
        self.users: dict[str, tuple[str, bool, bool]] = {}
        self.acls: dict[str, tuple[Any, Any]] = {}
        self.published = 0
        self.is_full = False

    def put_user(self, name: str, password: str, is_super: bool, is_enabled: bool) -> None:
        if self.is_full:
            raise NoMemory("no memory")
        self.users[name] = (password, is_super, is_enabled)

    def delete_user(self, name: str) -> None:
        del self.users[name]

    def put_acl(self, user: str, custom: Sequence[PolicyEntry], default: Sequence[PolicyEntry]) -> None:
        if self.is_full:
            raise NoMemory("no memory")
        self.acls[user] = (tuple(custom), tuple(default))

    def delete_acl(self, user: str) -> None:
        del self.acls[user]

    def publish(self) -> None:
        self.published += 1

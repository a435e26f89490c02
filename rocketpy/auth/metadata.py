"""Users and rights together, as one file holds them: config/auth.json, readable by its owner only.
RocketMQ: LocalAuthenticationMetadataProvider, LocalAuthorizationMetadataProvider (5.5.0 auth/), which keep them in RocksDB,
config/users and config/acls (taken_tables.py).

They are in one file because they belong together: a new user with the name of a deleted one must not find the old user's rights.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from .._core.errors import RocketpyError
from ..remoting.json_codec import write_fastjson
from .acls import Acl, AclSink, AclTable
from .faults import AuthFault
from .members import objects
from .users import User, UserSink, UserTable

AUTH_FILE = "auth.json"


class AuthSink(UserSink, AclSink, Protocol):
    """The native tables of users and rights."""

    def publish(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Taken:
    """RocketMQ's own tables as they were seen last, each by a digest of its contents."""

    users: str
    acls: str

    def to_json(self) -> dict[str, str]:
        return {"acls": self.acls, "users": self.users}

    @staticmethod
    def from_json(value: Any) -> Taken | None:
        """None if they were not seen. Raises ValueError."""
        if value is None:
            return None
        users, acls = (value.get("users"), value.get("acls")) if isinstance(value, Mapping) else (None, None)
        if not isinstance(users, str) or not isinstance(acls, str):
            raise ValueError("what was taken over of RocketMQ's tables is not two digests")
        return Taken(users, acls)


@dataclass(frozen=True, slots=True)
class SavedAuth:
    """The contents of the file."""

    users: tuple[User, ...]
    acls: tuple[Acl, ...]
    taken: Taken | None = None

    @staticmethod
    def from_json(value: Any) -> SavedAuth:
        """Raises ValueError, whose text contains no secret: a user or a right that cannot be read must not be dropped silently."""
        if not isinstance(value, Mapping):
            raise ValueError(f"users and rights are {type(value).__name__}, expected an object")
        users = tuple(User.from_json(user) for user in objects(value, "users"))
        if not all(user.name.strip() and user.password.strip() and user.type and user.status for user in users):
            raise ValueError("a user without name, password, type or status")
        try:
            acls = tuple(Acl.from_json(acl) for acl in objects(value, "acls"))
        except AuthFault as error:
            raise ValueError(f"rights: {error.remark}") from None
        return SavedAuth(users, acls, Taken.from_json(value.get("taken")))

    def text(self) -> str:
        """The text of the file, made in the thread that writes it."""
        value: dict[str, Any] = {"acls": [acl.to_json() for acl in self.acls], "users": [user.to_json() for user in self.users]}
        if self.taken is not None:
            value["taken"] = self.taken.to_json()
        return write_fastjson(value, pretty=True).decode()


class AuthMetadata:
    """The tables of users and rights. A change applies to clients from `publish` on."""

    def __init__(self, sink: AuthSink) -> None:
        self._sink = sink
        self.users = UserTable(sink)
        self.acls = AclTable(sink)
        self.taken: Taken | None = None
        self._take_count = 0

    @property
    def change_count(self) -> int:
        return self.users.change_count + self.acls.change_count + self._take_count

    def delete_user(self, name: str) -> None:
        """Deletes a user and the user's rights. Raises AuthFault."""
        self.users.delete(name)
        self.acls.forget(name)

    def publish(self) -> None:
        """Raises NoMemory; the changes then take effect at the next call."""
        self._sink.publish()

    def snapshot(self) -> SavedAuth:
        return SavedAuth(self.users.snapshot(), self.acls.snapshot(), self.taken)

    def load(self, saved: SavedAuth) -> None:
        """Fills empty tables. Raises RocketpyError."""
        self.users.load(saved.users)
        self.acls.load(saved.acls)
        self.taken = saved.taken

    def take(self, saved: SavedAuth) -> None:
        """Replaces the tables by RocketMQ's. Raises ValueError, which names the user or subject that has no room here; then they are as
        they were. Raises RocketpyError if not even that can be."""
        before = self.snapshot()
        try:
            self.replace_all(saved, ())
        except (RocketpyError, ValueError) as error:
            left = self._first_left(saved)
            self.replace_all(before, ())
            raise ValueError(f"{left}: {error}") from None
        self.pass_over(saved.taken)

    def pass_over(self, taken: Taken | None) -> None:
        """Notes that RocketMQ's tables were seen as they are."""
        self.taken = taken
        self._take_count += 1

    def _first_left(self, saved: SavedAuth) -> str:
        """The first user or subject that `replace_all` has not come to."""
        users = {user.name for user in saved.users}
        yet = [user.name for user in saved.users if self.users.get(user.name) != user]
        yet += [acl.subject for acl in saved.acls if acl.user in users and self.acls.get(acl.user) != acl]
        return next(iter(yet), "what is there")

    def replace_all(self, saved: SavedAuth, kept: Collection[str]) -> None:
        """Replaces the tables by another broker's, except for users that are `kept` in any case. Raises RocketpyError if only a part could
        be changed; the next call changes the rest."""
        users = {user.name for user in saved.users}
        for name in {user.name for user in self.users.snapshot()} - users - set(kept):
            self.delete_user(name)
        for name in {acl.user for acl in self.acls.snapshot()} & users - {acl.user for acl in saved.acls}:
            self.acls.forget(name)
        self.users.load(saved.users)
        self.acls.load(acl for acl in saved.acls if acl.user in users)

"""Users. Each has a name, the secret that signs the user's requests, a type (a super user may do everything) and a status (a disabled user
may do nothing).
RocketMQ: User, UserType, UserStatus, AuthenticationMetadataManagerImpl, UserConverter (5.5.0 auth/, broker/). Decisions only.

The JSON of a user is RocketMQ's UserInfo, in answers and in the file. It holds the password, because mqadmin copies users between brokers
with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from .faults import AuthFault
from .members import optional_text

SUPER, NORMAL = "Super", "Normal"
ENABLE, DISABLE = "enable", "disable"


class UserSink(Protocol):
    """The native table, which limits how much it holds. Raises RocketpyError, and has then changed nothing."""

    def put_user(self, name: str, password: str, is_super: bool, is_enabled: bool) -> None: ...
    def delete_user(self, name: str) -> None: ...


@dataclass(frozen=True, slots=True)
class User:
    """One user. A type or status that no release knows is None: a new user then gets the default, an existing one keeps its own."""

    name: str
    password: str = field(default="", repr=False)
    type: str | None = None
    status: str | None = None

    @property
    def is_super(self) -> bool:
        return self.type == SUPER

    @property
    def is_enabled(self) -> bool:
        return self.status != DISABLE

    def to_json(self) -> dict[str, Any]:
        return {"password": self.password, "userStatus": self.status, "userType": self.type, "username": self.name}

    @staticmethod
    def from_json(value: Mapping[Any, Any], name: str | None = None) -> User:
        """`name` takes precedence over the object's. Raises ValueError, whose text contains no secret."""
        return User(
            name if name is not None else optional_text(value, "username") or "",
            optional_text(value, "password") or "",
            _constant(optional_text(value, "userType"), SUPER, NORMAL),
            _constant(optional_text(value, "userStatus"), ENABLE, DISABLE),
        )


def _new(user: User) -> User:
    return replace(user, type=user.type or NORMAL, status=user.status or ENABLE)


def _constant(text: str | None, *constants: str) -> str | None:
    """The constant of one of RocketMQ's enums, in upper or lower case."""
    return next((each for each in constants if text is not None and text.lower() == each.lower()), None)


class UserTable:
    """All users, here and in the native table."""

    def __init__(self, sink: UserSink) -> None:
        self._sink = sink
        self._users: dict[str, User] = {}
        self.change_count = 0

    def __len__(self) -> int:
        return len(self._users)

    def get(self, name: str) -> User | None:
        """The user of this name. Raises AuthFault for a blank name."""
        if not name.strip():
            raise AuthFault("username can not be blank")
        return self._users.get(name)

    def is_super(self, name: str) -> bool:
        """Whether the user is a super user. Raises AuthFault if there is no such user."""
        user = self.get(name)
        if user is None:
            raise AuthFault(f"User:{name} is not found")
        return user.is_super

    def create(self, user: User) -> None:
        """Raises AuthFault, RocketpyError."""
        known = self.get(user.name)
        if not user.password.strip():
            raise AuthFault("password can not be blank")
        if known is not None:
            raise AuthFault("The user is existed")
        self._put(_new(user))

    def has(self, user: User) -> bool:
        """Whether the user exists exactly as `create` would make it. Raises AuthFault."""
        return self.get(user.name) == _new(user)

    def update(self, user: User) -> None:
        """Changes a user; what `user` leaves out stays. Raises AuthFault, RocketpyError."""
        known = self.get(user.name)
        if known is None:
            raise AuthFault("The user is not exist")
        password = user.password if user.password.strip() else known.password
        self._put(User(user.name, password, user.type or known.type, user.status or known.status))

    def delete(self, name: str) -> None:
        """Deletes a user; does nothing if there is none. Raises AuthFault."""
        if self.get(name) is not None:
            self._sink.delete_user(name)
            del self._users[name]
            self.change_count += 1

    def list(self, part: str = "") -> list[User]:
        """The users whose names contain `part`, by name."""
        return [user for name, user in sorted(self._users.items()) if not part.strip() or part in name]

    def snapshot(self) -> tuple[User, ...]:
        return tuple(self._users.values())

    def load(self, users: Iterable[User]) -> None:
        """Takes over the contents of a file, or another broker's. Raises RocketpyError."""
        for user in users:
            if self._users.get(user.name) != user:
                self._put(user)

    def _put(self, user: User) -> None:
        self._sink.put_user(user.name, user.password, user.is_super, user.is_enabled)
        self._users[user.name] = user
        self.change_count += 1

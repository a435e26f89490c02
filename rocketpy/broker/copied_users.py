"""Users and rights that a replica behind a controller, or a member of a DLedger group, copies from its master, so that the next master
knows them. RocketMQ's copy none.

They come in two requests and take effect together: a user who was deleted and made again must not find the old rights in between. An empty
list from a master removes nobody, because the master may have lost its file. The users that this broker's configuration names are never
removed.

Threads  one event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from ..auth.metadata import AuthMetadata, SavedAuth
from ..auth.service import AuthService
from ..config import Config
from ..remoting.codes import RequestCode
from .persistence import SavedState
from .settings import is_elected
from .slave_synchronize import RIGHTS, USERS, CopiedState


def copied_users(config: Config, auth: AuthService, saved: SavedState) -> tuple[CopiedState, ...]:
    """The states by which a slave copies users and rights. Empty if the broker copies none: its role is configured, or neither identities
    nor rights are checked."""
    if not is_elected(config) or not auth.settings.is_on:
        return ()
    users = CopiedUsers(auth.metadata, lambda: auth.configured_users)
    return (
        CopiedState(USERS, RequestCode.AUTH_LIST_USER, users.take_users, None),
        CopiedState(RIGHTS, RequestCode.AUTH_LIST_ACL, users.take_rights, saved.save),
    )


class CopiedUsers:
    """`take_users`, then `take_rights`, each with its answer in the same round."""

    def __init__(self, metadata: AuthMetadata, configured: Callable[[], Collection[str]]) -> None:
        self._metadata = metadata
        self._configured = configured
        self._users: Any = None
        self._published = metadata.change_count

    def take_users(self, value: Any) -> bool:
        """Keeps the users for take_rights; nothing changes yet."""
        self._users = value
        return False

    def take_rights(self, value: Any) -> bool:
        """Puts users and rights into force. Raises ValueError, RocketpyError."""
        users, self._users = self._users, None
        if not users:
            return False
        saved = SavedAuth.from_json({"users": users, "acls": value or []})
        self._metadata.replace_all(saved, self._configured())
        count = self._metadata.change_count
        if count == self._published:
            return False
        self._metadata.publish()  # and with the next round, where memory is out
        self._published = count
        return True

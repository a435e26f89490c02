"""Stub of rocketpy._core.auth: users, their rights, and the gate in front of servers (csrc/auth/auth_table.h)."""

from collections.abc import Iterable, Sequence
from typing import Final

from typing_extensions import disjoint_base

from .base import LogTap as LogTap
from .remoting import Gate
from .results import AclEntry as AclEntry

# ResourceType
RESOURCE_ANY: Final = 1
RESOURCE_CLUSTER: Final = 2
RESOURCE_NAMESPACE: Final = 3
RESOURCE_TOPIC: Final = 4
RESOURCE_GROUP: Final = 5
# ResourcePattern
PATTERN_ANY: Final = 1
PATTERN_LITERAL: Final = 2
PATTERN_PREFIXED: Final = 3
# Action, as bits
ACTION_ALL: Final = 2
ACTION_ANY: Final = 4
ACTION_PUB: Final = 8
ACTION_SUB: Final = 16
ACTION_CREATE: Final = 32
ACTION_UPDATE: Final = 64
ACTION_DELETE: Final = 128
ACTION_GET: Final = 256
ACTION_LIST: Final = 512
# rp_verdict
VERDICT_ALLOW: Final = 0
VERDICT_DENY: Final = 1
VERDICT_NO_MATCH: Final = 2
# rp_identity
IDENTITY_PROVEN: Final = 0
IDENTITY_UNKNOWN: Final = 1
IDENTITY_DISABLED: Final = 2
IDENTITY_WRONG_SIGNATURE: Final = 3

@disjoint_base
class AuthTable(Gate):
    """Owns one rp_auth_table. Changes take effect at the next publish(). Servers get it by Server.set_gate, and keep it from being
    closed until they are closed. Calls come from one thread at a time."""

    def __init__(self, *, log: LogTap | None = None) -> None: ...
    def close(self) -> None: ...
    def put_user(self, name: str, secret: bytes, *, is_super: bool = False, is_enabled: bool = True) -> None:
        """Raises InvalidArgument, TooLarge, NoMemory. The secret itself is not kept."""
    def delete_user(self, name: str) -> bool:
        """Returns False if there is no such user. Its ACL stays."""
    def put_acl(self, user: str, entries: Sequence[AclEntry]) -> None:
        """Sets all entries of a user, for both policies. Raises InvalidArgument with the reason if one is malformed, TooLarge, NoMemory."""
    def delete_acl(self, user: str) -> bool:
        """Returns False if the user has none."""
    def set_options(
        self,
        *,
        authenticate: bool,
        authorize: bool,
        cluster_name: str,
        authentication_whitelist: Iterable[int] = (),
        authorization_whitelist: Iterable[int] = (),
    ) -> None:
        """Nothing is checked before the first call. Whitelists hold request codes."""
    def publish(self) -> None:
        """Makes the changes count for requests from now on. Raises NoMemory: then the last published state stays in force."""
    def identify(self, user: str, content: bytes, signature: str) -> int:
        """Returns whether a user has signed the content, as `sign` does: one of the IDENTITY_ constants. Uses unpublished changes, too."""
    def judge(self, user: str, resource_type: int, name: str, actions: int, source: str) -> int:
        """Returns whether a user has a right: one of the VERDICT_ constants. Uses unpublished changes, too. source: an address without a
        port."""
    def stats(self) -> dict[str, int]:
        """The fields of rp_auth_stats."""

def sign(secret: bytes, content: bytes) -> str:
    """Returns the base64 of HmacSHA1, the value of the field Signature, as AclSigner.calSignature computes it."""

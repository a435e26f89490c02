"""Users and rights of a RocketMQ broker whose place this one takes: config/users and config/acls, in RocksDB, where it keeps them.
RocketMQ: LocalAuthenticationMetadataProvider, LocalAuthorizationMetadataProvider, User, Acl (5.5.0 auth/).

    users   alice       {"username":"alice","password":"…","userType":2,"userStatus":1,"subjectType":1}
    acls    User:alice  {"subject":{…},"policies":[{"policyType":1,"entries":[{"resource":{"resourceType":4,"resourcePattern":2,
                        "resourceName":"orders"},"actions":[3],"environment":{"sourceIps":[…]},"decision":1}]}]}

They are taken when there are no users here but those of the configuration, and again, as a whole, when RocketMQ has changed any of them
since: `taken` keeps a digest of each table as it was seen. RocksDB's sequence numbers would not do: they go back where it is killed, and
come again with other values. The tables are never written.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from .acls import ALLOW, CUSTOM, DEFAULT, DENY, Acl, subject_user
from .faults import AuthFault
from .members import objects, optional_text
from .metadata import SavedAuth, Taken
from .resources import ACTIONS, ANY, LITERAL, PREFIXED, RESOURCE_TYPES, Resource
from .rocksdb import read_rocksdb
from .users import DISABLE, ENABLE, NORMAL, SUPER, User

T = TypeVar("T")

DIRECTORIES = ("users", "acls")
_USER_TYPES, _STATUSES = ("", SUPER, NORMAL), ("", ENABLE, DISABLE)
_POLICIES, _DECISIONS, _PATTERNS = ("", CUSTOM, DEFAULT), ("", ALLOW, DENY), ("", ANY, LITERAL, PREFIXED)


def read_taken_tables(directory: Path) -> SavedAuth | None:
    """What RocketMQ left in `directory`; None if it never kept users there. Raises ValueError, whose text names the file and contains no
    secret, and OSError."""
    if not any((directory / name / "CURRENT").exists() for name in DIRECTORIES):
        return None
    users, acls = (read_rocksdb(path) if (path := directory / name).is_dir() else {} for name in DIRECTORIES)
    return SavedAuth(
        tuple(_attempt(directory / "users", key, _user, text) for key, text in users.items()),
        tuple(acl for key, text in acls.items() if (acl := _attempt(directory / "acls", key, _acl, text, key)) is not None),
        Taken(_digest(users), _digest(acls)),
    )


def _digest(table: Mapping[bytes, bytes]) -> str:
    """Of the table's sorted keys and their values."""
    told = hashlib.sha256()
    for row in table.items():
        for each in row:
            told.update(len(each).to_bytes(8, "little") + each)
    return told.hexdigest()


def _attempt(path: Path, key: bytes, convert: Callable[..., T], text: bytes, *more: bytes) -> T:
    try:
        value = json.loads(text)
        json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair, which JSON may name, is no text
        return convert(value, *more)
    except (ValueError, AttributeError, TypeError, RecursionError, AuthFault) as error:
        is_no_json = isinstance(error, (json.JSONDecodeError, RecursionError))
        cause = "no JSON" if is_no_json else error.remark if isinstance(error, AuthFault) else error
        raise ValueError(f"{path}: {key.decode(errors='replace')}: {cause}") from None


def _user(value: Mapping[str, Any]) -> User:
    status = _constant(value, "userStatus", _STATUSES) if value.get("userStatus") is not None else ENABLE
    members = {name: optional_text(value, name) for name in ("username", "password")}
    user = User.from_json({**members, "userType": _constant(value, "userType", _USER_TYPES), "userStatus": status})
    if not user.name.strip() or not user.password.strip():
        raise ValueError("a user without name or password")
    return user


def _acl(value: Mapping[str, Any], key: bytes) -> Acl | None:
    """None for one without entries, and for one of no user."""
    subject = key.decode()
    policies = [
        {
            "policyType": _constant(policy, "policyType", _POLICIES),
            "entries": [_entry(entry) for entry in objects(policy, "entries")],
        }
        for policy in objects(value, "policies")
    ]
    is_empty = not any(policy["entries"] for policy in policies) or subject_user(subject) is None
    return None if is_empty else Acl.from_json({"subject": subject, "policies": policies})


def _entry(value: Mapping[str, Any]) -> dict[str, Any]:
    resource = value.get("resource") or {}
    name = optional_text(resource, "resourceName") or ""
    pattern = _constant(resource, "resourcePattern", _PATTERNS)
    return {
        "resource": Resource(_constant(resource, "resourceType", RESOURCE_TYPES), name, pattern).key,
        "actions": [_constant({"action": action}, "action", ACTIONS) for action in value.get("actions") or []],
        "sourceIps": (value.get("environment") or {}).get("sourceIps"),
        "decision": _constant(value, "decision", _DECISIONS),
    }


def _constant(value: Mapping[str, Any], name: str, constants: Sequence[str]) -> str:
    """The constant of an enum that is written by its code, or by its name."""
    member = value.get(name)
    if isinstance(member, int) and 0 <= member < len(constants) and constants[member]:
        return constants[member]
    for each in constants:
        if isinstance(member, str) and each and each.lower() == member.lower():
            return each
    raise ValueError(f"{name} is {member!r}, which is not known")

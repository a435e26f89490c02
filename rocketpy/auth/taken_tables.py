"""Users and rights of a RocketMQ broker whose place this one takes: config/users and config/acls, in RocksDB, where it keeps them.
RocketMQ: LocalAuthenticationMetadataProvider, LocalAuthorizationMetadataProvider, User, Acl (5.5.0 auth/).

    users   alice       {"username":"alice","password":"…","userType":2,"userStatus":1,"subjectType":1}
    acls    User:alice  {"subject":{…},"policies":[{"policyType":1,"entries":[{"resource":{"resourceType":4,"resourcePattern":2,
                        "resourceName":"orders"},"actions":[3],"environment":{"sourceIps":[…]},"decision":1}]}]}

What was in force last counts. They are taken when there are no users here but those of the configuration, and again when RocketMQ has
changed them since: each change there raises a sequence number, and `taken` keeps those that were seen. They are never written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .acls import ALLOW, CUSTOM, DEFAULT, DENY, subject_user
from .faults import AuthFault
from .members import objects, optional_text
from .metadata import SavedAuth, Taken
from .resources import ACTIONS, ANY, LITERAL, PREFIXED, RESOURCE_TYPES, Resource
from .rocksdb import RocksDb, read_rocksdb
from .users import DISABLE, ENABLE, NORMAL, SUPER

DIRECTORIES = ("users", "acls")
_USER_TYPES, _STATUSES = ("", SUPER, NORMAL), ("", ENABLE, DISABLE)
_POLICIES, _DECISIONS, _PATTERNS = ("", CUSTOM, DEFAULT), ("", ALLOW, DENY), ("", ANY, LITERAL, PREFIXED)


def read_taken_tables(directory: Path) -> SavedAuth | None:
    """What RocketMQ left in `directory`; None if it never kept users there. Raises ValueError, whose text names the file and contains no
    secret, and OSError."""
    if not any((directory / name / "CURRENT").exists() for name in DIRECTORIES):
        return None
    users, acls = (read_rocksdb(path) if (path := directory / name).is_dir() else RocksDb() for name in DIRECTORIES)
    value = {
        "users": [_attempt(directory / "users", key, _user, text) for key, text in users.values.items()],
        "acls": [acl for key, text in acls.values.items() if (acl := _attempt(directory / "acls", key, _acl, text, key.decode()))],
    }
    try:
        saved = SavedAuth.from_json(value)
    except ValueError as error:
        raise ValueError(f"{directory / 'users'}, {directory / 'acls'}: {error}") from None
    return SavedAuth(saved.users, saved.acls, Taken(users.sequence, acls.sequence))


def _attempt(path: Path, key: bytes, convert: Callable[..., dict[str, Any]], text: bytes, *more: str) -> dict[str, Any]:
    try:
        return convert(json.loads(text), *more)
    except (ValueError, AttributeError, AuthFault) as error:
        cause = "no JSON" if isinstance(error, json.JSONDecodeError) else error
        raise ValueError(f"{path}: {key.decode(errors='replace')}: {cause}") from None


def _user(value: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "username": optional_text(value, "username"),
        "password": optional_text(value, "password"),
        "userType": _constant(value, "userType", _USER_TYPES),
        "userStatus": _constant(value, "userStatus", _STATUSES) if value.get("userStatus") is not None else ENABLE,
    }


def _acl(value: Mapping[str, Any], subject: str) -> dict[str, Any]:
    """In the form of answers; empty for one without entries, and for one of no user."""
    policies = [
        {
            "policyType": _constant(policy, "policyType", _POLICIES),
            "entries": [_entry(entry) for entry in objects(policy, "entries")],
        }
        for policy in objects(value, "policies")
    ]
    is_empty = not any(policy["entries"] for policy in policies) or subject_user(subject) is None
    return {} if is_empty else {"subject": subject, "policies": policies}


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

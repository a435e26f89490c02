"""Rights: per subject a custom and a default policy, each a list of entries (resource, actions, source addresses, decision).
RocketMQ: Acl, Policy, PolicyEntry, AclConverter, AuthorizationMetadataManagerImpl (5.5.0 auth/, broker/). Decisions only.

The JSON of an ACL is RocketMQ's AclInfo, in answers as in the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from .faults import AuthFault
from .members import objects, optional_text, texts
from .resources import Resource, is_address_or_network, parse_action

CUSTOM, DEFAULT = "Custom", "Default"
ALLOW, DENY = "Allow", "Deny"
USER_SUBJECT = "User"


@dataclass(frozen=True, slots=True)
class PolicyEntry:
    """A decision about some actions on a resource, from some addresses or, if none are given, from everywhere."""

    resource: Resource
    actions: tuple[str, ...]
    source_ips: tuple[str, ...]
    decision: str

    def to_json(self) -> dict[str, Any]:
        return {
            "actions": list(self.actions),
            "decision": self.decision,
            "resource": self.resource.key,
            "sourceIps": list(self.source_ips) or None,
        }

    @staticmethod
    def from_json(value: Mapping[Any, Any]) -> PolicyEntry:
        """Raises AuthFault in RocketMQ's words, ValueError for members of a wrong type."""
        resource = Resource.parse(optional_text(value, "resource"))
        if resource is None:
            raise AuthFault("The resource is null.")
        actions = tuple(known for name in texts(value, "actions") if (known := parse_action(name)) is not None)
        if not actions:
            raise AuthFault("The actions is empty.")
        if "Any" in actions:
            raise AuthFault("The actions can not be Any.")
        source_ips = texts(value, "sourceIps")
        for source_ip in source_ips:
            if not source_ip.strip():
                raise AuthFault("The source ip is empty.")
            if not is_address_or_network(source_ip):
                raise AuthFault("The source ip is invalid.")
        decision = {"allow": ALLOW, "deny": DENY}.get((optional_text(value, "decision") or "").lower())
        if decision is None:
            raise AuthFault("The decision is null or illegal.")
        return PolicyEntry(resource, tuple(dict.fromkeys(actions)), source_ips, decision)


Entries = tuple[PolicyEntry, ...]


class AclSink(Protocol):
    """The native table, which limits how much it holds. Raises RocketpyError, and has then changed nothing."""

    def put_acl(self, user: str, custom: Sequence[PolicyEntry], default: Sequence[PolicyEntry]) -> None: ...
    def delete_acl(self, user: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Acl:
    """The rights of one user. The default policy decides if no entry of the custom one matches."""

    user: str
    custom: Entries = ()
    default: Entries = ()

    @property
    def subject(self) -> str:
        return f"{USER_SUBJECT}:{self.user}"

    def merged(self, other: Acl) -> Acl:
        """Replaces entries about the same resource and adds the others."""
        return replace(self, custom=_merged(self.custom, other.custom), default=_merged(self.default, other.default))

    def without(self, policy_type: str, resource: Resource) -> Acl:
        def kept(entries: Entries) -> Entries:
            return tuple(entry for entry in entries if entry.resource != resource)

        return replace(self, default=kept(self.default)) if policy_type == DEFAULT else replace(self, custom=kept(self.custom))

    def with_resource(self, part: str) -> Acl:
        """The Acl with only those entries whose resource's text contains `part`."""

        def shown(entries: Entries) -> Entries:
            return tuple(entry for entry in entries if part in entry.resource.key)

        return replace(self, custom=shown(self.custom), default=shown(self.default))

    def to_json(self) -> dict[str, Any]:
        policies = [
            {"entries": [entry.to_json() for entry in entries], "policyType": kind}
            for kind, entries in ((CUSTOM, self.custom), (DEFAULT, self.default))
            if entries
        ]
        return {"policies": policies or None, "subject": self.subject}

    @staticmethod
    def from_json(value: Mapping[Any, Any], subject: str | None = None) -> Acl:
        """`subject` is used if the object names none. Raises AuthFault in RocketMQ's words, ValueError."""
        user = subject_user(optional_text(value, "subject"))
        if user is None:
            user = subject_user(subject)
        if user is None:
            raise AuthFault("The subject is null.")
        acl = Acl(user)
        policies = [policy for policy in objects(value, "policies") if objects(policy, "entries")]
        if not policies:
            raise AuthFault("The policies is empty.")
        for policy in policies:
            entries = tuple(PolicyEntry.from_json(entry) for entry in objects(policy, "entries"))
            kind = policy_type(optional_text(policy, "policyType"))
            acl = acl.merged(Acl(user, default=entries) if kind == DEFAULT else Acl(user, custom=entries))
        return acl


def subject_user(subject: str | None) -> str | None:
    """The user in a text such as User:alice; None for other kinds of subjects, which no release has."""
    kind, _, name = (subject or "").partition(":")
    return name if kind.lower() == USER_SUBJECT.lower() else None


def policy_type(name: str | None) -> str:
    return DEFAULT if name is not None and name.lower() == DEFAULT.lower() else CUSTOM


def _merged(old: Entries, new: Entries) -> Entries:
    return tuple({entry.resource: entry for entry in (*old, *new)}.values())


class AclTable:
    """The rights of all users, here and in the native table."""

    def __init__(self, sink: AclSink) -> None:
        self._sink = sink
        self._acls: dict[str, Acl] = {}
        self.change_count = 0

    def get(self, user: str) -> Acl | None:
        return self._acls.get(user)

    def update(self, acl: Acl) -> None:
        """Creates or changes rights, which is the same. Raises RocketpyError."""
        known = self._acls.get(acl.user)
        self._put(acl if known is None else known.merged(acl))

    def delete(self, user: str, kind: str = CUSTOM, resource: Resource | None = None) -> None:
        """Deletes one entry, or without a resource the whole acl. Raises AuthFault, RocketpyError."""
        known = self._acls.get(user)
        if known is None:
            raise AuthFault("The acl is not exist.")
        left = Acl(user) if resource is None else known.without(kind, resource)
        if left.custom or left.default:
            self._put(left)
        else:
            self.forget(user)

    def forget(self, user: str) -> None:
        if user in self._acls:
            self._sink.delete_acl(user)
            del self._acls[user]
            self.change_count += 1

    def list(self, subject_part: str = "", resource_part: str = "") -> list[Acl]:
        """Those of subjects that hold the one, by subject; of each the entries that hold the other, or all if its subject holds it."""
        acls = [acl for _, acl in sorted(self._acls.items()) if not subject_part.strip() or subject_part in acl.subject]
        if resource_part.strip():
            acls = [acl if resource_part in acl.subject else acl.with_resource(resource_part) for acl in acls]
        return [acl for acl in acls if acl.custom or acl.default]

    def snapshot(self) -> tuple[Acl, ...]:
        return tuple(self._acls.values())

    def load(self, acls: Iterable[Acl]) -> None:
        """Takes over the contents of a file, or another broker's. Raises RocketpyError."""
        for acl in acls:
            if self._acls.get(acl.user) != acl:
                self._put(acl)

    def _put(self, acl: Acl) -> None:
        self._sink.put_acl(acl.user, acl.custom, acl.default)
        self._acls[acl.user] = acl
        self.change_count += 1

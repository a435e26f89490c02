"""What rights are about: a cluster, a topic, a group, or all names with one beginning; and the actions on them.
RocketMQ: Resource, ResourceType, ResourcePattern, Action, IPAddressUtils (5.5.0 auth/, common/). Decisions only.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

RESOURCE_TYPES = ("Unknown", "Any", "Cluster", "Namespace", "Topic", "Group")
ACTIONS = ("Unknown", "All", "Any", "Pub", "Sub", "Create", "Update", "Delete", "Get", "List")
ANY, LITERAL, PREFIXED = "ANY", "LITERAL", "PREFIXED"
_TYPES = {name.lower(): name for name in RESOURCE_TYPES}
_ACTIONS = {name.lower(): name for name in ACTIONS}


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource, or those that match a pattern. `name` is empty for ANY."""

    type: str
    name: str
    pattern: str

    @staticmethod
    def parse(key: str | None) -> Resource | None:
        """`*`, `Topic:*`, `Topic:a*`, `Topic:a`; None for a text that is no resource."""
        if key is None or not key.strip():
            return None
        kind, _, name = key.partition(":")
        known = "Any" if key == "*" else _TYPES.get(kind.lower())
        if known is None:
            return None
        prefix, star, _ = name.partition("*")
        if known == "Any" or (name.endswith("*") and not prefix):
            return Resource(known, "", ANY)
        return Resource(known, prefix, PREFIXED) if star and name.endswith("*") else Resource(known, name, LITERAL)

    @property
    def key(self) -> str:
        """The resource as text again."""
        if self.type == "Any":
            return "*"
        return f"{self.type}:{self.name}" + ("" if self.pattern == LITERAL else "*")


def parse_action(name: str) -> str | None:
    return _ACTIONS.get(name.lower())


def is_address_or_network(text: str) -> bool:
    """Whether the text is an IP address, or one followed by the length of a prefix."""
    address, slash, length = text.partition("/")
    try:
        bits = ipaddress.ip_address(address).max_prefixlen
    except ValueError:
        return False
    return not slash or (length.isascii() and length.isdigit() and len(length) <= 3 and int(length) <= bits)

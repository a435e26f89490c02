"""Accounts of RocketMQ 4.x, plain_acl.yml, as users and rights. RocketMQ: PlainPermissionManager, AuthMigrator (5.5.0 auth/migration/).

    accounts:
      - accessKey: alice
        secretKey: 12345678
        admin: false
        defaultTopicPerm: DENY      the DEFAULT policy, on Topic:*
        defaultGroupPerm: SUB       the same, on Group:*
        topicPerms:                 the CUSTOM policy, on Topic:orders …
          - orders=PUB|SUB
        groupPerms:
          - readers=SUB

The reader knows as much YAML as such a file needs: maps and lists by indentation, `[a, b]`, quotes, comments. Anything else, or a
permission that 4.x does not know, makes it refuse the whole file and name the line, because the part that it skipped could be the one that
denied something. RocketMQ reads an unknown permission as all permissions. As in RocketMQ, white addresses are not taken over: users replace
them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from .acls import ALLOW, DENY, Acl, PolicyEntry
from .resources import ANY, LITERAL, Resource
from .users import NORMAL, SUPER, User

Value = str | list[str] | None
Account = dict[str, Value]

_TEXTS: Final = ("accessKey", "secretKey", "admin", "defaultTopicPerm", "defaultGroupPerm", "whiteRemoteAddress")
_LISTS: Final = ("topicPerms", "groupPerms")
_PERMISSIONS: Final = {
    "DENY": (("All",), DENY),
    "ANY": (("All",), ALLOW),
    "PUB": (("Pub",), ALLOW),
    "SUB": (("Sub",), ALLOW),
    "PUB|SUB": (("Pub", "Sub"), ALLOW),
    "SUB|PUB": (("Pub", "Sub"), ALLOW),
}
_RETRY: Final = "%RETRY%"


@dataclass
class PlainAcl:
    """The contents of a file."""

    accounts: list[Account] = field(default_factory=list)
    has_white_addresses: bool = False


def plain_acl_files(home: Path) -> list[Path]:
    """The files that RocketMQ reads below its installation. Of two accounts with one name the first counts."""
    files = sorted(path for path in (home / "conf/acl").rglob("*") if path.suffix in (".yml", ".yaml") and path.is_file())
    return [*files, *(path for path in [home / "conf/plain_acl.yml"] if path.is_file())]


def user_and_acl(account: Account) -> tuple[User, Acl | None]:
    """Raises ValueError, whose text contains no secret."""
    name, secret, admin = (account.get(key) for key in ("accessKey", "secretKey", "admin"))
    if not isinstance(name, str) or not isinstance(secret, str) or not name.strip() or not secret.strip():
        raise ValueError("an account without accessKey or secretKey")
    if admin not in (None, "true", "false"):
        raise ValueError(f"{name}: admin is neither true nor false")
    custom = (*_entries(name, "Topic", account.get("topicPerms")), *_entries(name, "Group", account.get("groupPerms")))
    default = (*_default(name, "Topic", account.get("defaultTopicPerm")), *_default(name, "Group", account.get("defaultGroupPerm")))
    acl = Acl(name).merged(Acl(name, custom, default)) if custom or default else None
    return User(name, secret, SUPER if admin == "true" else NORMAL), acl


def _entries(account: str, kind: str, permissions: Value) -> Iterator[PolicyEntry]:
    for each in permissions or ():
        name, equals, permission = (part.strip() for part in each.partition("="))
        if kind == "Group":
            name = name.removeprefix(_RETRY)
        if not equals or not name or "*" in name:
            raise ValueError(f"{account}: {each!r} is no permission such as NAME=PUB|SUB")
        yield _entry(account, Resource(kind, name, LITERAL), permission)


def _default(account: str, kind: str, permission: Value) -> Iterator[PolicyEntry]:
    if isinstance(permission, str) and permission.strip():
        yield _entry(account, Resource(kind, "", ANY), permission.strip())


def _entry(account: str, resource: Resource, permission: str) -> PolicyEntry:
    if permission not in _PERMISSIONS:
        raise ValueError(f"{account}: {permission!r} on {resource.key} is not one of {', '.join(_PERMISSIONS)}")
    actions, decision = _PERMISSIONS[permission]
    return PolicyEntry(resource, actions, (), decision)


# ---- as much of YAML ----


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    indent: int
    is_item: bool
    """Begins with a dash; `indent` is then that of the dash."""
    text: str


def read_plain_acl(text: str) -> PlainAcl:
    """Raises ValueError that names the line."""
    reading = _Reading()
    for line in _lines(text):
        reading.take(line)
    found = reading.found
    found.has_white_addresses |= any(each.get("whiteRemoteAddress") for each in found.accounts)
    return found


class _Reading:
    """What the lines so far say, and what the next one belongs to."""

    def __init__(self) -> None:
        self.found = PlainAcl()
        self._section = ""
        self._account_indent = -1
        self._open_list = ""  # of the last account: items that follow are its members

    def take(self, line: _Line) -> None:
        key, value = _pair(line)
        if line.indent == 0 and not line.is_item:
            self._begin_section(line, key, value)
        elif self._section == "accounts":
            self._take_of_account(line, key, value)
        elif self._section == "globalWhiteRemoteAddresses" and line.is_item:
            self.found.has_white_addresses = True
        elif self._section != "dataVersion":
            raise _fault(line, "it belongs to nothing")

    def _begin_section(self, line: _Line, section: str, value: Value) -> None:
        self._section, self._open_list = section, ""
        has_value = value not in (None, [])
        if section == "globalWhiteRemoteAddresses":
            self.found.has_white_addresses |= has_value
        elif section not in ("accounts", "dataVersion") or has_value:
            raise _fault(line, f"{section} is unknown, or no list of its own lines")

    def _take_of_account(self, line: _Line, key: str, value: Value) -> None:
        accounts = self.found.accounts
        if line.is_item and key in _TEXTS + _LISTS and line.indent == (self._account_indent if accounts else line.indent):
            self._account_indent = line.indent
            accounts.append({})
            self._open_list = _put(accounts[-1], line, key, value)
        elif line.is_item and self._open_list and line.indent > self._account_indent:
            members = accounts[-1][self._open_list]
            assert isinstance(members, list)
            members.append(_scalar(line, line.text) or "")
        elif not line.is_item and accounts and line.indent > self._account_indent:
            self._open_list = _put(accounts[-1], line, key, value)
        else:
            raise _fault(line, "it belongs to no account")


def _lines(text: str) -> Iterator[_Line]:
    for number, raw in enumerate(text.removeprefix("\ufeff").splitlines(), start=1):
        content = raw.rstrip()
        stripped = content.lstrip(" ")
        if not stripped or stripped.startswith("#") or content == "---":
            continue
        indent = len(content) - len(stripped)
        if stripped.startswith("\t"):
            raise ValueError(f"line {number}: a tab where YAML has blanks only")
        is_item = stripped == "-" or stripped.startswith("- ")
        yield _Line(number, indent, is_item, stripped[1:].lstrip(" ") if is_item else stripped)


def _pair(line: _Line) -> tuple[str, Value]:
    """The key and value of `key: value`; ("", None) for an item that is not a pair."""
    found = re.fullmatch(r"([A-Za-z]+):(?: +(.*))?", line.text)
    if found is None:
        if not line.is_item:
            raise _fault(line, "expected a name and a colon")
        return "", None
    value = (found[2] or "").strip()
    if value.startswith("["):
        inner, closing, rest = value[1:].partition("]")
        if not closing or _scalar(line, rest) is not None:
            raise _fault(line, "a list in brackets ends in its line")
        return found[1], [_scalar(line, part) or "" for part in inner.split(",") if part.strip()]
    return found[1], _scalar(line, value)


def _put(account: Account, line: _Line, key: str, value: Value) -> str:
    """Sets a member. Returns the name of the list that the following lines belong to, if this line begins one."""
    if key in account or key not in _TEXTS + _LISTS or (key in _TEXTS and isinstance(value, list)):
        raise _fault(line, f"{key or 'it'} is unknown here, there twice or no single value")
    if key in _LISTS:
        if isinstance(value, str):
            raise _fault(line, f"{key} is not a list")
        account[key] = value or []
        return "" if value else key
    account[key] = value.lower() if key == "admin" and isinstance(value, str) else value
    return ""


def _scalar(line: _Line, text: str) -> str | None:
    """One value without its quotes and the comment that follows; None if there is none."""
    text = text.strip()
    if text[:1] in ("'", '"'):
        inner, closing, rest = text[1:].partition(text[0])
        if not closing or "\\" in inner or (rest.strip() and not rest.lstrip().startswith("#")):
            raise _fault(line, "a text in quotes holds none of its own quotes and no backslash")
        return inner
    text = re.split(r"(?:^|\s)#", text)[0].strip()
    if text[:1] in tuple("&*!|>{}[]%@`?,") or ": " in text or text.endswith(":"):
        raise _fault(line, "only plain texts, texts in quotes and lists are read")
    return text if text not in ("", "~", "null") else None


def _fault(line: _Line, what: str) -> ValueError:
    return ValueError(f"line {line.number}: {what}")

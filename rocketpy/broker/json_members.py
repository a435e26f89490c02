"""Reads members of JSON objects that others wrote. An error about a wrong type names the place; null gives the default, as in Java."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_LONG_MAX = (1 << 63) - 1


def text_member(value: Mapping[Any, Any], name: str, default: str | None, where: str) -> str:
    member = value.get(name)
    if member is None:
        member = default
    if not isinstance(member, str):
        raise ValueError(f"{where}: {name} is {member!r}, expected a text")
    return member


def optional_text_member(value: Mapping[Any, Any], name: str, where: str) -> str | None:
    return None if value.get(name) is None else text_member(value, name, None, where)


def integer_member(value: Mapping[Any, Any], name: str, default: int | None, where: str) -> int:
    member = value.get(name)
    if member is None:
        member = default
    if isinstance(member, str):
        try:
            member = int(member)
        except ValueError:
            raise ValueError(f"{where}: {name} is {member!r}, expected a number") from None
    if not isinstance(member, int) or isinstance(member, bool) or not -_LONG_MAX - 1 <= member <= _LONG_MAX:
        raise ValueError(f"{where}: {name} is {member!r}, expected a number of 64 bits")
    return member


def fits_32_bits(number: int) -> bool:
    return -(1 << 31) <= number < 1 << 31


def enum_member(value: Mapping[Any, Any], name: str, constants: Sequence[str], default: str, where: str) -> str:
    """The constant of a Java enum in a JSON value: its name, or, from the C++ client, its position."""
    member = value.get(name)
    if member is None:
        return default
    if isinstance(member, str) and member in constants:
        return member
    position = integer_member(value, name, None, where)
    if not 0 <= position < len(constants):
        raise ValueError(f"{where}: {name} is {member!r}, expected one of {', '.join(constants)}")
    return constants[position]


def boolean_member(value: Mapping[Any, Any], name: str, default: bool, where: str) -> bool:
    member = value.get(name)
    if member is None:
        return default
    if isinstance(member, str) and member.lower() in ("true", "false"):
        return member.lower() == "true"
    if not isinstance(member, bool):
        raise ValueError(f"{where}: {name} is {member!r}, expected true or false")
    return member


def list_member(value: Mapping[Any, Any], name: str, where: str) -> list[Any]:
    member = value.get(name)
    if member is None:
        return []
    if not isinstance(member, list):
        raise ValueError(f"{where}: {name} is {type(member).__name__}, expected a list")
    return member


def object_member(value: Mapping[Any, Any], name: str, where: str) -> Mapping[Any, Any]:
    member = value.get(name)
    if member is None:
        return {}
    if not isinstance(member, Mapping):
        raise ValueError(f"{where}: {name} is {type(member).__name__}, expected an object")
    return member


def text_map_member(value: Mapping[Any, Any], name: str, where: str) -> dict[str, str]:
    member = object_member(value, name, where)
    for key, text in member.items():
        if not isinstance(key, str) or not isinstance(text, str):
            raise ValueError(f"{where}: {name}.{key} is {text!r}, expected a text")
    return dict(member)

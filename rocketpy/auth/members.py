"""Members of JSON objects that may hold secrets: an error about one never contains its value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def optional_text(value: Mapping[Any, Any], name: str) -> str | None:
    """Raises ValueError."""
    member = value.get(name)
    if member is not None and not isinstance(member, str):
        raise ValueError(f"{name} is {type(member).__name__}, expected a text")
    return member


def texts(value: Mapping[Any, Any], name: str) -> tuple[str, ...]:
    """A list of texts; empty if the member is missing. Raises ValueError."""
    member = value.get(name)
    if member is None:
        return ()
    if not isinstance(member, list) or not all(isinstance(each, str) for each in member):
        raise ValueError(f"{name} is not a list of texts")
    return tuple(member)


def objects(value: Mapping[Any, Any], name: str) -> list[Mapping[Any, Any]]:
    """A list of objects; empty if the member is missing. Raises ValueError."""
    member = value.get(name)
    if member is None:
        return []
    if not isinstance(member, list) or not all(isinstance(each, Mapping) for each in member):
        raise ValueError(f"{name} is not a list of objects")
    return member

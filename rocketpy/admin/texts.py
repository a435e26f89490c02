"""Values as mqadmin writes them: times, versions, Java's maps and texts. RocketMQ: UtilAll, MQVersion, PermName (5.5.0)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from .errors import UsageError

_OLD_VERSIONS = (
    "ALPHA1 BETA1 BETA2 BETA3 BETA4 BETA5 BETA6_SNAPSHOT BETA6 BETA7_SNAPSHOT BETA7 BETA8_SNAPSHOT BETA8 BETA9_SNAPSHOT BETA9 FINAL"
)
V4_0_0_SNAPSHOT, VERSION_LAST = 212, 611
"""From 4.0.0 on every number has a snapshot and a release, up to 5.9.9; behind it all are HIGHER_VERSION."""
_TIME = re.compile(r"(\d{4}-\d{1,2}-\d{1,2}#\d{1,2}:\d{1,2}:\d{1,2}):(\d{1,3})", re.ASCII)


def front(text: str, size: int) -> str:
    """The first characters of a longer text (UtilAll.frontStringAtLeast)."""
    return text[:size]


def human_time(time_ms: int) -> str:
    """ "2026-11-26 01:02:03,004", local time."""
    return f"{human_second(time_ms)},{time_ms % 1000:03}"


def human_second(time_ms: int) -> str:
    """ "2026-11-26 01:02:03" in local time; the number itself if no calendar has that time."""
    try:
        return datetime.fromtimestamp(time_ms // 1000).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, OSError, ValueError):
        return str(time_ms)


def digits_time(time_ms: int) -> str:
    """ "20261126010203004", local time (UtilAll.timeMillisToHumanString)."""
    return re.sub(r"\D", "", human_time(time_ms))


def time_of(text: str) -> int:
    """Milliseconds of "1795656260754" or "2026-11-26#01:02:03:004", local time. Raises UsageError."""
    if re.fullmatch("-?[0-9]{1,18}", text):
        return int(text)
    match = _TIME.fullmatch(text)
    try:
        if match is not None:
            return int(datetime.strptime(match[1], "%Y-%m-%d#%H:%M:%S").timestamp()) * 1000 + int(match[2])
    except (ValueError, OverflowError):
        pass
    raise UsageError(f"{text!r} is not a time: milliseconds since 1970, or yyyy-MM-dd#HH:mm:ss:SSS")


def version_text(number: int) -> str:
    """The name of a release by its number: "V5_3_3" for 479."""
    if number > VERSION_LAST:
        return "HIGHER_VERSION"
    if number >= V4_0_0_SNAPSHOT:
        return _pair("V{}_{}_{}", 400 + (number - V4_0_0_SNAPSHOT) // 2, number - V4_0_0_SNAPSHOT)
    names = ["V3_0_0_SNAPSHOT", *(f"V3_0_0_{each}" for each in _OLD_VERSIONS.split())]
    names += [f"V3_0_{patch}{end}" for patch in range(1, 16) for end in ("_SNAPSHOT", "")]
    return names[number] if 0 <= number < len(names) else f"V3({number})"


def _pair(form: str, digits: int, position: int) -> str:
    return form.format(*str(digits)) + ("_SNAPSHOT" if position % 2 == 0 else "")


def java(value: Any) -> str:
    """A value as Java's texts show it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return java_map(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(java(each) for each in value) + "]"
    return str(value)


def java_map(members: Mapping[Any, Any]) -> str:
    """ "{0=127.0.0.1:10911, 1=127.0.0.1:10921}"."""
    return "{" + ", ".join(f"{java(name)}={java(value)}" for name, value in members.items()) + "}"


def perm_text(perm: int) -> str:
    """ "RW-": PermName.perm2String."""
    return "".join(letter if perm & bit else "-" for letter, bit in (("R", 4), ("W", 2), ("X", 1)))

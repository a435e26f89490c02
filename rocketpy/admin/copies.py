"""Copies users and rights from one broker to another. RocketMQ: CopyUsersSubCommand, CopyAclsSubCommand (5.5.0)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ..remoting.command import Fields
from ..remoting.json_codec import write_json
from .errors import AdminError
from .output import Output
from .session import Session

Entry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of entry: its noun, the member that names an entry, how to find one or all, and the requests (a code, and a header made from
    the name) that create and change one."""

    noun: str
    member: str
    find: Callable[[Session, str, str], Awaitable[Entry | None]]
    find_all: Callable[[Session, str], Awaitable[list[Entry]]]
    missing: Callable[[str, str], AdminError]
    create: tuple[int, Callable[[str], Fields]]
    update: tuple[int, Callable[[str], Fields]]


async def copy_entries(session: Session, out: Output, kind: Kind, source: str, target: str, names: Iterable[str] | None) -> None:
    """names: of the entries; None: all. Raises AdminError."""
    entries: list[Entry] = [] if names is not None else await kind.find_all(session, source)
    for name in names or ():
        entry = await kind.find(session, source, name)
        if entry is None:
            session.note(kind.missing(name, source))
        else:
            entries.append(entry)
    by_name = {str(entry.get(kind.member)): entry for entry in entries}

    async def copy(name: str) -> None:
        code, header = kind.create if await kind.find(session, target, name) is None else kind.update
        await session.call(target, code, header(name), write_json(by_name[name]))
        out.done(f"copy {kind.noun} of {name} from {source} to {target} success.", **{kind.member: name})

    await session.each(by_name, copy)

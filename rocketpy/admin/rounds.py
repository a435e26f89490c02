"""What is done again and again until Ctrl-C: a document a round, with what failed in it. RocketMQ: the -i of several commands (5.5.0)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from .command_line import Given
from .errors import AdminError
from .output import Output
from .session import Session

Work = Callable[[Session, Given, Output], Awaitable[None]]


async def rounds(session: Session, given: Given, out: Output, work: Work) -> None:
    """Does the work once or, with -i, every so many seconds until Ctrl-C."""
    if not given.has("i"):
        await work(session, given, out)
        return
    await every(session, given, out, work, given.number("i", 3, least=1))


async def every(session: Session, given: Given, out: Output, work: Work, interval_s: int) -> None:
    await work(session, given, out)  # what cannot be at all ends with an error; later on the name servers may be back the next time
    while True:
        end_round(session, out)
        await asyncio.sleep(interval_s)
        try:
            await work(session, given, out)
        except AdminError as error:
            session.note(error)


def end_round(session: Session, out: Output) -> None:
    """Ends a round. What failed is part of its output."""
    troubles = session.take_troubles()
    for error in troubles:
        out.line(f"[error] {error}")
    if troubles:
        out.set(errors=[error.members() for error in troubles])
    out.end()

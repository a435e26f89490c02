"""`rocketpy admin COMMAND …`: mqadmin's commands. Exit codes: 0 done; 1 failed, even if at only one of several servers; 2 wrong usage.

The command line library is not loaded: its option syntax is not mqadmin's, and importing it takes longer than most commands run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from ..admin.command_line import CommandRow, Given
    from ..admin.errors import AdminError
    from ..admin.output import Output

PROGRAM = "rocketpy admin"
EXIT_FAILED, EXIT_USAGE = 1, 2
STRANGE = (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError)
"""The errors that a server's answer of an unexpected shape leads to."""


def run_admin(words: Sequence[str]) -> int:
    from ..admin.commands import LEFT_OUT, find_command

    if not words or list(words) in (["help"], ["-h"], ["--help"]):
        sys.stdout.write(overview())
        return 0
    name, *rest = words
    if name == "help":
        name, rest = rest[0], ["-h"]
    command = find_command(name)
    if command is None:
        why = next((why for left_out, why in LEFT_OUT.items() if left_out.lower() == name.lower()), "")
        _complain(PROGRAM, f"{name} is not here: {why}" if why else f"there is no command {name!r}; {PROGRAM} help lists them")
        return EXIT_USAGE
    return _run(command, rest, os.environ)


def overview() -> str:
    from ..admin.commands import COMMANDS

    rows = "".join(f"   {command.name:35} {command.summary}\n" for command in COMMANDS)
    return f"usage: {PROGRAM} COMMAND [options], as mqadmin; {PROGRAM} COMMAND -h tells the options\n\n{rows}"


def _run(command: CommandRow, words: Sequence[str], environment: Mapping[str, str]) -> int:
    import asyncio

    from .._core.errors import RocketpyError
    from ..admin.command_line import parse, usage
    from ..admin.errors import AdminError, UsageError
    from ..admin.output import Output
    from ..config import ConfigError

    program = f"{PROGRAM} {command.name}"
    try:
        given = parse(command, words)
        if given.has("h"):
            sys.stdout.write(usage(command))
            return 0
        out = Output(sys.stdout.write, is_json=_is_json(command, given))
        if not may_go_on(command, given, sys.stdin, sys.stderr):
            _complain(program, "not done")
            return EXIT_FAILED
        troubles = asyncio.run(_handle(command, given, out, environment))
    except (UsageError, ConfigError) as error:
        _complain(program, str(error))
        return EXIT_USAGE
    except RocketpyError as error:
        troubles = [AdminError(str(error))]
    _say_troubles(program, out, troubles)
    return EXIT_FAILED if troubles else 0


def _is_json(command: CommandRow, given: Given) -> bool:
    from ..admin.errors import UsageError

    option = next(option for option in command.options() if option.name == "output")  # its letter is another's in some commands
    form = given.text(option.key, "text")
    if form not in ("text", "json"):
        raise UsageError(f"{option.shown}: {form!r} is neither text nor json")
    return form == "json"


async def _handle(command: CommandRow, given: Given, out: Output, environment: Mapping[str, str]) -> list[AdminError]:
    """Runs one command. Returns the errors it met: those of the places that failed, or the one that stopped it. An empty list means
    success."""
    from importlib import import_module

    from .._core.errors import RocketpyError
    from ..admin.access import credentials_of, tls_context
    from ..admin.errors import AdminError, UsageError
    from ..admin.session import TIMEOUT_S, Session
    from ..remoting.client import RemotingClient

    servers = given.text("n") or environment.get("NAMESRV_ADDR", "")
    timeout_s = float(given.number("timeout", least=1)) if given.has("timeout") else TIMEOUT_S
    tls = tls_context() if given.has("useTLS") else None
    credentials = credentials_of(environment)
    module, _, function = command.handler.partition(":")
    handler = getattr(import_module(f"..admin.{module}", __package__), function)
    async with RemotingClient(connect_timeout_s=min(timeout_s, 3.0), tls=tls, credentials=credentials) as client:
        names = tuple(part.strip() for part in servers.split(";") if part.strip())
        session = Session(client, names, timeout_s, was_given=lambda address: given.holds(address) or address in names)
        try:
            await handler(session, given, out)
        except AdminError as error:
            session.troubles.append(error)
        except RocketpyError:
            raise
        except UnicodeEncodeError as error:  # of a word of the command line: what servers say is text when it gets here
            raise UsageError(f"{error.object!r} is no UTF-8") from error
        except STRANGE as error:  # outer edge
            cause = f"what a server answered cannot be understood: {type(error).__name__}: {error}"
            session.troubles.append(AdminError(cause, remedy="is it a server of RocketMQ, of a release that this command knows?"))
        return session.troubles


def may_go_on(command: CommandRow, given: Given, answers: TextIO | None, questions: TextIO) -> bool:
    """Asks a person at a terminal for confirmation before something is lost. A script is not asked, because mqadmin asks nobody."""
    if not command.asks or given.has("yes") or answers is None or not answers.isatty():
        return True
    questions.write(f"{given.asked(command.asks)} [y/N] ")
    questions.flush()
    return answers.readline().strip().lower() in ("y", "yes")


def _say_troubles(program: str, out: Output, troubles: Sequence[AdminError]) -> None:
    if troubles:
        out.set(errors=[trouble.members() for trouble in troubles])
    out.end()
    sys.stdout.flush()
    for trouble in troubles:
        _complain(program, str(trouble))


def _complain(program: str, text: str) -> None:
    sys.stderr.write(f"{program}: {' '.join(text.split())}\n")

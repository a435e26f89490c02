"""Entry points of the commands. Servers are started without the command line library, because importing it takes longer than their start.

Exit codes of every command: 0 done, 1 failed, 2 wrong usage or configuration, 3 unhealthy or damaged, 130 interrupted (0 or 1 from a
command that handles the interrupt itself).
"""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Callable


def main() -> int:
    return _guarded(lambda: _run(sys.argv[1:]))


def _guarded(command: Callable[[], int]) -> int:
    """Runs the command and returns the exit code. An error that an operator can cause is reported in one line, without a traceback."""
    _open_closed_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # bodies, properties and paths hold what a terminal's encoding may not
    try:
        try:
            return command()
        finally:
            sys.stdout.flush()  # here it can be told in a line
    except OSError as error:  # a file, a full disk, a closed pipe
        place = f" [{error.filename}]" if error.filename else ""
        print(f"rocketpy: {error.strerror or error}{place}", file=sys.stderr)
        try:
            sys.stdout.flush()
        except OSError:  # it was standard output itself, and what it holds would end us with 120 and a word of the interpreter's
            from .terminal import forget_output

            forget_output()
        return 1
    except KeyboardInterrupt:  # before a command listens to signals itself
        return 130


def _open_closed_streams() -> None:
    """Opens /dev/null in place of a closed standard output or error. Otherwise the next file we open would get that descriptor, and what is
    printed would land in it."""
    for name, number in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
            setattr(sys, name, open(number, "w", encoding="utf-8", errors="backslashreplace", closefd=False))  # noqa: SIM115


def _run(arguments: list[str]) -> int:
    if arguments and arguments[0] in ("namesrv", "broker", "controller"):
        return _serve(arguments[0], arguments[1:], f"rocketpy {arguments[0]}")
    if arguments and arguments[0] == "proxy":
        from .proxy import run_proxy

        return run_proxy(arguments[1:], "rocketpy proxy")
    if arguments and arguments[0] == "admin":
        return _administer(arguments[1:])
    if arguments in (["version"], ["--version"], ["-V"]):
        from .version import print_version

        return print_version()
    from .._core.errors import RocketpyError
    from .app import command_line
    from .terminal import complain

    try:
        command_line(arguments[0] if arguments else "")(prog_name="rocketpy")
    except RocketpyError as error:
        complain("rocketpy", error)
        return 1
    return 0


def mqnamesrv() -> int:
    return _guarded(lambda: _serve("namesrv", sys.argv[1:], "mqnamesrv"))


def mqbroker() -> int:
    return _guarded(lambda: _serve("broker", sys.argv[1:], "mqbroker"))


def mqproxy() -> int:
    from .proxy import run_proxy

    return _guarded(lambda: run_proxy(sys.argv[1:], "mqproxy"))


def mqadmin() -> int:
    return _guarded(lambda: _administer(sys.argv[1:]))


def _administer(arguments: list[str]) -> int:
    from .admin import run_admin

    return run_admin(arguments)


def mqcontroller() -> int:
    return _guarded(lambda: _serve("controller", sys.argv[1:], "mqcontroller"))


def _serve(role: str, arguments: list[str], program: str) -> int:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})  # waits until the server listens: by itself it would end the process

    from .servers import run_server

    return run_server(role, arguments, program)

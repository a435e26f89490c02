"""Entry points of the commands. The servers are started without the command line library: it takes longer to import than they to start.

Exit codes of every command: 0 done, 1 failed, 2 wrong usage, 3 unhealthy.
"""

from __future__ import annotations

import sys


def main() -> int:
    try:
        return _run(sys.argv[1:])
    except OSError as error:  # a file, a full disk, a closed pipe: what an operator can cause is one line, not a traceback
        place = f" [{error.filename}]" if error.filename else ""
        print(f"rocketpy: {error.strerror or error}{place}", file=sys.stderr)
        return 1


def _run(arguments: list[str]) -> int:
    if arguments and arguments[0] in ("namesrv", "broker"):
        from .servers import run_server

        return run_server(arguments[0], arguments[1:], f"rocketpy {arguments[0]}")
    if arguments in (["version"], ["--version"], ["-V"]):
        from .version import print_version

        return print_version()
    from .._core.errors import RocketpyError
    from .app import app
    from .process import complain

    try:
        app(prog_name="rocketpy")
    except RocketpyError as error:
        complain("rocketpy", error)
        return 1
    return 0


def mqnamesrv() -> int:
    from .servers import run_server

    return run_server("namesrv", sys.argv[1:], "mqnamesrv")


def mqbroker() -> int:
    from .servers import run_server

    return run_server("broker", sys.argv[1:], "mqbroker")

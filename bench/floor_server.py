"""The floor server (csrc/load/floor.h) as a process of its own: `python -m bench.floor_server FILE PORT KIND`; ends at the end
of its input."""

from __future__ import annotations

import sys

from rocketpy._core.load import Floor


def main() -> None:
    path, port, kind = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    with Floor(path, port=port, kind=kind) as floor:
        sys.stdout.write(f"{floor.port}\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main()

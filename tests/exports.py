"""Writes csrc/rocketpy.map again from the public headers: `make exports`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.unit.native import CSRC, declarations, public_headers

HEAD = """/* What librocketpy.so lets out: the functions of the public headers (rocketpy.h), made by `make exports`.
 * Functions between the files of a room are named rp_ as well but stand in no public header. */
ROCKETPY_0 {
  global:
"""


def functions_of(header: Path) -> set[str]:
    """The functions a header declares; pointers to functions are not."""
    without_pointers = re.sub(r"\(\s*\*\s*\w+\s*\)", "", declarations(header))
    return set(re.findall(r"\b(rp_\w+)\s*\(", without_pointers))


def exported() -> dict[str, list[str]]:
    """Functions by header, in the order of the map."""
    return {str(header.relative_to(CSRC)): sorted(functions_of(header)) for header in sorted(public_headers())}


def map_text() -> str:
    rooms = [f"    /* {header} */\n" + "".join(f"    {name};\n" for name in names) for header, names in exported().items() if names]
    return HEAD + "".join(rooms) + "  local:\n    *;\n};\n"


if __name__ == "__main__":
    (CSRC / "rocketpy.map").write_text(map_text())

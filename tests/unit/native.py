"""The C library through cffi, declared by its own headers: `from tests.unit.native import ffi, lib, check`.

Every csrc/**/*.h but the inline ones (x_inl.h) is read as it is: include lines and guards are taken out. What is left must be plain
declarations in the public headers (csrc/rocketpy.h); headers inside a room that are not, or say "C only" in their head, are left out.
The library is linked from the objects of the package and lets out every function; ROCKETPY_LIBRARY names another one (sanitizers).
Reading them takes cffi seconds, in each process of the tests: what it has read is kept in build/cffi/ and read anew when one changes.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
from pathlib import Path
from typing import Any

import cffi

from tests.native_build import BUILD, build_library

ROOT = Path(__file__).resolve().parents[2]
CSRC = ROOT / "csrc"
KEPT = BUILD.with_name("cffi")

_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
_NUMBER = re.compile(r"^\s*#\s*define\s+(\w+)\s+(\(?-?(?:0[xX][0-9a-fA-F]+|\d+)[uUlL]*\)?)\s*(?:/\*.*\*/\s*)?$")
_ATTRIBUTE = re.compile(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)|_Static_assert\s*\([^;]*\);")
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


def is_for_c_only(header: Path) -> bool:
    """Whether its head comment says "C only", perhaps across a line break."""
    return "C only" in re.sub(r"\s+(\* )?", " ", header.read_text().partition("*/")[0])


def headers() -> list[Path]:
    """What is read, included ones first."""
    ordered: list[Path] = []

    def visit(header: Path) -> None:
        if header in ordered or header.name.endswith("_inl.h") or is_for_c_only(header):
            return
        for name in _INCLUDE.findall(header.read_text()):
            visit((header.parent / name).resolve())
        ordered.append(header)

    for header in sorted(CSRC.rglob("*.h")):
        visit(header)
    return [header for header in ordered if header.name != "rocketpy.h"]


def declarations(header: Path) -> str:
    """What cffi's parser understands of a header: the declarations and the integer #defines."""
    lines = []
    for line in _COMMENT.sub(lambda found: "\n" * found.group().count("\n"), header.read_text()).splitlines():
        if line.lstrip().startswith("#"):
            number = _NUMBER.match(line)
            lines.append(f"#define {number[1]} {number[2].strip('()').rstrip('uUlL')}" if number else "")
        else:
            lines.append(line)
    return _ATTRIBUTE.sub("", "\n".join(lines))


def public_headers() -> set[Path]:
    return {(CSRC / name).resolve() for name in _INCLUDE.findall((CSRC / "rocketpy.h").read_text())}


def _read(texts: dict[Path, str], module: str) -> cffi.FFI:
    """Those inside a room that are not plain declarations (atomics, inline code) are left out: tests do not reach them here."""
    builder = cffi.FFI()
    builder.set_source(module, None)
    public = public_headers()
    for header, declared in texts.items():
        try:
            builder.cdef(declared)
        except Exception as error:  # cffi raises what its parser raises
            if header in public:
                raise RuntimeError(f"{header.relative_to(ROOT)} is not plain declarations: {error}") from error
    return builder


def _load() -> tuple[Any, Any]:
    library = os.environ.get("ROCKETPY_LIBRARY") or build_library().whole
    texts = {header: declarations(header) for header in headers()}
    parts = [cffi.__version__, Path(__file__).read_text(), *texts.values()]
    name = "native_" + hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    path = KEPT / f"{name}.py"
    if not path.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        half = path.with_suffix(f".{os.getpid()}")  # several processes of the tests may want it at once
        _read(texts, name).emit_python_code(str(half))
        half.replace(path)
        for other in KEPT.glob("native_*.py"):
            if other != path:
                other.unlink(missing_ok=True)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.ffi, module.ffi.dlopen(str(library))


ffi, lib = _load()


def text(pointer: Any) -> str:
    return str(ffi.string(pointer).decode())


def check(status: int, error: Any = None) -> int:
    """The status when it is no error, else an AssertionError that says what the native side said."""
    if status >= 0:
        return status
    detail = f": {text(error.message)} [{text(error.file)}]" if error is not None else ""
    raise AssertionError(f"{text(lib.rp_status_name(status))}{detail}")

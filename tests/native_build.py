"""csrc/library.py for tests: the library with sanitizer flags, and C programs linked against it."""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "csrc"))
from library import BUILD, Library, library_sources  # noqa: E402

sys.path.remove(str(ROOT / "csrc"))  # or `import grpc` finds the directory of that name where grpcio is missing

# Who reads through NULL faults without UBSan, too, and AddressSanitizer sees more than object-size: a sixth of the compiler's time.
UNDEFINED = ("-fno-sanitize-recover=all", "-fno-sanitize=null,object-size", "-fno-omit-frame-pointer")
# What each sanitizer run adds to the flags of a normal build.
SANITIZERS: dict[str, tuple[str, ...]] = {
    "plain": (),
    # -O1 (of several the last one counts) takes the compiler two thirds of the time.
    "address": ("-O1", "-fsanitize=address,undefined", *UNDEFINED),
    # gcc warns of fences, which ThreadSanitizer does not see; the tests decide whether that matters.
    "thread": ("-O1", "-fsanitize=thread", "-fno-omit-frame-pointer", "-Wno-tsan"),
    "fuzzer": ("-O1", "-fsanitize=address,undefined,fuzzer-no-link", *UNDEFINED),
}


def build_library(sanitizer: str = "plain", compiler: str = "", *flags: str, sources: list[Path] | None = None) -> Library:
    """Incremental. The plain one shares its objects with the package. Of `sources` only, when they are given."""
    directory = BUILD if sanitizer == "plain" else BUILD.with_name(f"{BUILD.name}-{sanitizer}")
    library = Library(directory, compiler, (*SANITIZERS[sanitizer], *flags), sources)
    library.build()
    return library


def sources_behind(programs: Iterable[Path]) -> list[Path]:
    """What the linker takes of the library for these programs, with the files of the same names in other rooms."""
    library = build_library()
    taken: set[str] = set()
    with tempfile.TemporaryDirectory() as directory:
        for program in programs:
            linker_map = Path(directory, "map")
            library.program(program, Path(directory, program.stem), "-O0", "-shared", f"-Wl,-Map={linker_map}")
            taken.update(re.findall(rf"{re.escape(library.archive.name)}\((\w+)\.o\)", linker_map.read_text()))
    return [source for source in library_sources() if source.stem in taken]


def c_test_programs() -> list[Path]:
    return sorted((ROOT / "tests" / "unit" / "c").glob("*_test.c"))


SANITIZED = ROOT / "build" / "sanitized.txt"
"""The names of the C programs that passed under AddressSanitizer when `make sanitize` ran last."""

DOES_LESS_SANITIZED = ("__SANITIZE_", '"memory_out.h"', "mallinfo")
"""In a program's text: it leaves something out, or asks an allocator that is not used, where there is a sanitizer."""


def c_test_programs_not_sanitized() -> list[Path]:
    """Those that did not pass under AddressSanitizer, or do more without it."""
    passed = SANITIZED.read_text().split() if SANITIZED.exists() else []
    return [
        source
        for source in c_test_programs()
        if source.stem not in passed or any(sign in source.read_text() for sign in DOES_LESS_SANITIZED)
    ]


def c_test_environment() -> dict[str, str]:
    """Where the C programs find what Python tells the broker at its start."""
    from rocketpy._core.liburing import liburing_path

    return {"ROCKETPY_TEST_LIBURING": liburing_path() or ""}


def fuzzers() -> list[Path]:
    return sorted((ROOT / "csrc").rglob("*_fuzz.c"))


def build_program(library: Library, source: Path, *flags: str) -> Path:
    stamp = hashlib.sha256(" ".join(flags).encode()).hexdigest()[:6]
    return library.program(source, library.directory / f"programs-{stamp}" / source.stem, *flags)


def build_c_test(library: Library, source: Path) -> Path:
    """Not optimized, and by the quicker linker where there are two: 125 programs would take longer to build than they run."""
    return build_program(library, source, "-O0", *(["-fuse-ld=gold"] if shutil.which("ld.gold") else []))

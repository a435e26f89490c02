"""csrc/library.py for tests: the library with sanitizer flags, and C programs linked against it."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "csrc"))
from library import BUILD, Library  # noqa: E402

sys.path.remove(str(ROOT / "csrc"))  # or `import grpc` finds the directory of that name where grpcio is missing

# What each sanitizer run adds to the flags of a normal build.
SANITIZERS: dict[str, tuple[str, ...]] = {
    "plain": (),
    # -O1 (of several the last one counts) takes the compiler two thirds of the time.
    "address": ("-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"),
    # gcc warns of fences, which ThreadSanitizer does not see; the tests decide whether that matters.
    "thread": ("-O1", "-fsanitize=thread", "-fno-omit-frame-pointer", "-Wno-tsan"),
    "fuzzer": ("-O1", "-fsanitize=address,undefined,fuzzer-no-link", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"),
}


def build_library(sanitizer: str = "plain", compiler: str = "", *flags: str) -> Library:
    """Incremental. The plain one shares its objects with the package."""
    directory = BUILD if sanitizer == "plain" else BUILD.with_name(f"{BUILD.name}-{sanitizer}")
    library = Library(directory, compiler, (*SANITIZERS[sanitizer], *flags))
    library.build()
    return library


def c_test_programs() -> list[Path]:
    return sorted((ROOT / "tests" / "unit" / "c").glob("*_test.c"))


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
    """Not optimized: of 125 programs the compiler would take longer than they run."""
    return build_program(library, source, "-O0")

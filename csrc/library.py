"""Compiles csrc/ into one shared library. setup.py and the tests import this; `python csrc/library.py` needs only Python and a compiler.

    csrc/**/*.c ──gcc──► build/native/<flags>/…/x.o ──ld──► build/native/<flags>/librocketpy.so

Incremental, with gcc's dependency files.

Environment: CC (default cc), ROCKETPY_WERROR=1 (warnings are errors), ROCKETPY_CFLAGS (added at the end), ROCKETPY_JOBS (default 2).
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CSRC = Path(__file__).resolve().parent
ROOT = CSRC.parent
LIBRARY = "librocketpy.so"
# For the library that users run; libraries for tests have directories of their own.
BUILD = ROOT / "build" / "native"
# Separate programs, which define main or LLVMFuzzerTestOneInput and are never part of the library.
PROGRAM_SUFFIXES = ("_fuzz.c", "_main.c", "_test.c")
C_FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-O2", "-g1", "-fPIC", "-Wall", "-Wextra", "-fno-strict-aliasing", "-pthread"]
LINK_LIBRARIES = ["-lm", "-ldl"]


def library_sources() -> list[Path]:
    return sorted(path for path in CSRC.rglob("*.c") if not path.name.endswith(PROGRAM_SUFFIXES))


def jobs() -> int:
    """Returns how many Cython processes, or compilers, run at once."""
    return max(1, int(os.environ.get("ROCKETPY_JOBS", "2")))


class Library:
    """The native library: compiles what has changed, and links if anything has. Sanitizer runs build their own with extra flags."""

    def __init__(self, directory: Path, compiler: str = "", extra_flags: tuple[str, ...] = (), sources: list[Path] | None = None) -> None:
        self.sources = library_sources() if sources is None else sources
        self.has_all = sources is None
        self.compiler = shlex.split(compiler or os.environ.get("CC", "cc"))
        self.flags = [*C_FLAGS]
        self.link_flags = ["-pthread", *(flag for flag in extra_flags if flag.startswith("-fsanitize"))]
        if os.environ.get("ROCKETPY_WERROR") == "1":
            self.flags.append("-Werror")
        self.flags += extra_flags
        self.flags += shlex.split(os.environ.get("ROCKETPY_CFLAGS", ""))
        self.jobs = jobs()
        stamp = hashlib.sha256(
            " ".join([*self.compiler, *self.flags, *self.link_flags, *LINK_LIBRARIES, platform.machine()]).encode()
        ).hexdigest()[:10]
        self.directory = directory / stamp
        self.path = self.directory / LIBRARY
        # The same objects for tests, which use private functions: C programs link the archive, cffi loads the library with all symbols.
        self.archive = self.directory / "librocketpy.a"
        self.whole = self.directory / "librocketpy_whole.so"

    def build(self) -> Path:
        """Builds under a lock, since several test processes may find the library stale at once."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return self.build_alone()

    def build_alone(self) -> Path:
        if shutil.which(self.compiler[0]) is None:
            sys.exit(f"rocketpy: no C compiler ({self.compiler[0]}) was found; install one: sudo apt-get install -y gcc libc6-dev")
        objects = {source: self.directory / source.relative_to(CSRC).with_suffix(".o") for source in self.sources}
        stale = [source for source, target in objects.items() if self.is_stale(target)]
        manifest = self.directory / "objects.txt"  # lists the objects in the results; missing after a build that was interrupted
        if stale:
            manifest.unlink(missing_ok=True)
        with ThreadPoolExecutor(self.jobs) as pool:
            failures = [text for text in pool.map(lambda source: self.compile(source, objects[source]), stale) if text]
        if failures:
            sys.exit("\n".join(failures))
        script = CSRC / "rocketpy.map"
        rules_changed = max(path.stat().st_mtime for path in (script, Path(__file__)))
        names = "\n".join(str(target) for target in objects.values())
        changed = not manifest.exists() or manifest.read_text() != names
        results = (self.path, self.whole, self.archive) if self.has_all else (self.archive,)
        if changed or any(not result.exists() or result.stat().st_mtime < rules_changed for result in results):
            if self.has_all:
                self.link(self.path, list(objects.values()), f"-Wl,--version-script={script}")
                self.link(self.whole, list(objects.values()))
            self.make_archive(list(objects.values()))
            manifest.write_text(names)
        return self.path

    def is_stale(self, target: Path) -> bool:
        rules = target.with_suffix(".d")
        if not target.exists() or not rules.exists():
            return True
        built = target.stat().st_mtime
        for name in rules.read_text().replace("\\\n", " ").split(":", 1)[1].split():
            path = Path(name)
            if not path.exists() or path.stat().st_mtime > built:
                return True
        return False

    def compile(self, source: Path, target: Path) -> str:
        """Returns the compiler's output if it failed, else nothing; warnings are printed."""
        target.parent.mkdir(parents=True, exist_ok=True)
        command = [*self.compiler, *self.flags, "-MMD", "-MF", str(target.with_suffix(".d")), "-c", str(source), "-o", str(target)]
        print("  CC", source.relative_to(ROOT), flush=True)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            target.unlink(missing_ok=True)
            return f"{shlex.join(command)}\n{done.stderr}"
        if done.stderr:
            print(done.stderr, file=sys.stderr)
        return ""

    def link(self, target: Path, objects: list[Path], *flags: str) -> None:
        print("  LD", target.name, flush=True)
        half = target.with_suffix(".tmp")
        command = [*self.compiler, "-shared", *self.link_flags, *flags, f"-Wl,-soname,{target.name}", "-o", str(half)]
        done = subprocess.run([*command, *map(str, objects), *LINK_LIBRARIES], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{shlex.join(command)}\n{done.stderr}")
        half.replace(target)

    def make_archive(self, objects: list[Path]) -> None:
        half = self.archive.with_suffix(".tmp")
        half.unlink(missing_ok=True)
        subprocess.run(["ar", "rcsD", str(half), *map(str, objects)], check=True)
        half.replace(self.archive)

    def program(self, source: Path, target: Path, *flags: str) -> Path:
        """Compiles one C program against the archive if that, a source (flags may name further ones) or a header beside it is newer."""
        sources = [source, *(Path(flag) for flag in flags if flag.endswith(".c"))]
        newest = max(path.stat().st_mtime for path in (self.archive, *sources, *source.parent.glob("*.h")))
        if not target.exists() or target.stat().st_mtime < newest:
            target.parent.mkdir(parents=True, exist_ok=True)
            half = target.with_suffix(f".{os.getpid()}")  # several test processes may build the same one at once
            command = [*self.compiler, *self.flags, *flags, *self.link_flags, f"-I{CSRC}", str(source), str(self.archive)]
            done = subprocess.run([*command, *LINK_LIBRARIES, "-o", str(half)], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise RuntimeError(f"{shlex.join(command)}\n{done.stderr}")
            half.replace(target)
        return target


if __name__ == "__main__":
    Library(BUILD).build()

"""Builds the native part: csrc/ into one shared library, and the Cython wrappers of rocketpy/_core over it.

    csrc/**/*.c ──csrc/library.py──► rocketpy/_core/librocketpy.so
    rocketpy/_core/*.pyx ──cython, gcc──► rocketpy/_core/x.*.so  (finds the library beside itself: rpath $ORIGIN)

Everything else about the distribution is in pyproject.toml; csrc/library.py lists the environment variables that are used. Every shared
object is put in place by rename, so that a process running from this tree keeps the file that it has mapped.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
PACKAGE = Path("rocketpy/_core")
# -O1: no message passes through the wrappers, and compiling with -O2 takes half as long again.
COMPILE_ARGS = ["-std=c11", "-O1", "-g1", "-Wno-unused-function"]

sys.path.insert(0, str(ROOT / "csrc"))
from library import BUILD, CSRC, LIBRARY, Library, jobs  # noqa: E402

sys.path.remove(str(ROOT / "csrc"))  # its directories have the names of modules


def replace_file(source: Path, target: Path) -> None:
    """Copies by rename, so that processes which have the old file mapped keep it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    os.close(handle)
    shutil.copyfile(source, name)
    Path(name).chmod(0o755)
    Path(name).replace(target)


class BuildNative(build_ext):
    """build_ext that builds the library first, and puts every shared object in place by rename."""

    def finalize_options(self) -> None:
        super().finalize_options()
        if self.parallel is None:
            self.parallel = jobs()

    def run(self) -> None:
        if getattr(self, "editable_mode", False):  # an editable install uses what `build_ext --inplace` has compiled
            tag = f"{sysconfig.get_platform()}-{sys.implementation.cache_tag}"
            self.build_lib, self.build_temp = str(ROOT / "build" / f"lib.{tag}"), str(ROOT / "build" / f"temp.{tag}")
        in_place = bool(self.inplace)  # saved, because setuptools turns it off while it builds
        library = Library(BUILD).build()
        self.library_dirs.append(str(library.parent))
        super().run()
        home = ROOT if in_place or getattr(self, "editable_mode", False) else Path(self.build_lib)
        target = home / PACKAGE / LIBRARY
        if not target.exists() or target.read_bytes() != library.read_bytes():
            replace_file(library, target)

    def get_libraries(self, ext: Extension) -> list[str]:
        """Leaves out libpython, which setuptools would link when it cross-compiles: it is present whenever a module is loaded."""
        return list(ext.libraries)

    def copy_extensions_to_source(self) -> None:
        for extension in self.extensions:
            built = Path(self.build_lib) / self.get_ext_filename(self.get_ext_fullname(extension.name))
            target = ROOT / PACKAGE / built.name
            if not target.exists() or target.read_bytes() != built.read_bytes():
                replace_file(built, target)

    def get_outputs(self) -> list[str]:
        return [*super().get_outputs(), str(Path(self.build_lib) / PACKAGE / LIBRARY)]


class BuildPackage(build_py):
    """build_py that also copies conf/, so that an installed `rocketpy up --cluster NAME` has the sample deployments."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            shutil.copytree(ROOT / "conf", Path(self.build_lib) / "rocketpy" / "conf", dirs_exist_ok=True)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        samples = [str(Path(self.build_lib) / "rocketpy" / path.relative_to(ROOT)) for path in (ROOT / "conf").rglob("*") if path.is_file()]
        return [*super().get_outputs(include_bytecode), *samples]


# The rooms whose headers a wrapper reads; one that is not listed reads all. It is compiled again when one of these headers changes.
ROOMS = {
    "base": ["base"],
    "remoting": ["base", "remoting"],
    "grpc": ["base", "remoting", "grpc"],
    "store": ["base", "store"],
    "broker": ["base", "remoting", "store", "broker"],
    "load": ["base", "load"],
    "arrow": ["base", "store", "arrow"],
}


def headers_of(module: str) -> list[str]:
    rooms = [CSRC / room for room in ROOMS.get(module, ["."])]
    return [str(path.relative_to(ROOT)) for directory in [*rooms, ROOT / PACKAGE] for path in sorted(directory.rglob("*.h"))]


def extensions() -> list[Extension]:
    from Cython.Build import cythonize

    modules = [
        Extension(
            f"rocketpy._core.{path.stem}",
            [str(path.relative_to(ROOT))],
            include_dirs=["csrc", str(PACKAGE)],
            libraries=["rocketpy"],
            extra_compile_args=COMPILE_ARGS,
            extra_link_args=["-Wl,-rpath,$ORIGIN", "-Wl,--no-as-needed"],
        )
        for path in sorted((ROOT / PACKAGE).glob("*.pyx"))
    ]
    cythonized = list(
        cythonize(
            modules,
            build_dir="build/cython",
            nthreads=jobs(),
            language_level=3,
            compiler_directives={"embedsignature": False, "binding": True, "auto_pickle": False},
        )
    )
    for module in cythonized:
        module.depends = [*module.depends, *headers_of(module.name.rpartition(".")[2]), "setup.py"]
    return cythonized


if __name__ == "__main__":
    os.chdir(ROOT)
    setup(ext_modules=extensions(), cmdclass={"build_ext": BuildNative, "build_py": BuildPackage})

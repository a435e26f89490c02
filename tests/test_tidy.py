"""Style as a test: layers, sizes, names, exports and tables that must agree. Each failure says what to do instead."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from setuptools._distutils.filelist import FileList

from rocketpy._core import errors

ROOT = Path(__file__).resolve().parent.parent
CSRC = ROOT / "csrc"
PACKAGE = ROOT / "rocketpy"
LINES_MAX = 600
COLUMNS_MAX = 140

# Which rooms a room may include: its own and those to the left of it.
C_ROOMS = {
    "base": set(),
    "remoting": {"base"},
    "grpc": {"base", "remoting"},
    "proxy": {"base", "remoting", "grpc", "auth", "store"},
    "store": {"base"},
    "auth": {"base", "remoting"},
    "broker": {"base", "remoting", "store"},
    "ha": {"base", "remoting", "store"},
    "arrow": {"base", "remoting", "store"},
    "load": {"base"},
}
# Python packages from the bottom up: a module imports from its own level or below.
PYTHON_LEVELS = (
    {"_core"},
    {"awake_clock", "config", "error_lines", "garbage", "repeated_warning", "state_file", "threads"},
    {"remoting", "logs"},
    {"metrics"},
    {"auth", "namesrv", "broker", "ha", "store", "dledger", "controller", "proxy", "admin"},
    {"cli", "spark", "__main__"},
    {"testing"},
)
BANNED_WORDS = {
    r"\bTODO\b|\bFIXME\b|\bXXX\b": "open an issue, or do it",
    r"\bmaster/slave\b": "master and slave",
    r"^\s*(class|typedef struct) \w*([Mm]anager|[Uu]tils?|[Hh]elper|[Ii]mpl)\b": "name it after what it is",
}
BANNED_C = {
    r"\b(strcpy|strcat|sprintf|gets|strtok)\s*\(": "the bounded form (snprintf, memcpy with a checked size)",
    r"\b(usleep|nanosleep|sleep)\s*\(": "wait on a futex or an eventfd",
    r"\batoi\s*\(": "rp_slice_to_i32, or strtol with its checks",
}
PAUSES = {"rocketpy/spark/cluster.py"}  # between two tries at a broker that does not answer, bounded by retryTimeoutMs
BANNED_PYTHON = {r"\btime\.sleep\(": "wait for a condition with a bound", r"^\s*print\(": "logging, or say() in the command line"}


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def in_git() -> tuple[Path, ...]:
    """The files that git tracks; none in an unpacked archive, without git, or in somebody else's clone."""
    if shutil.which("git") is None:
        return ()
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    return tuple(ROOT / name for name in done.stdout.split("\n") if name) if done.returncode == 0 else ()


@cache
def tracked() -> tuple[Path, ...]:
    """The files of the repository; where git does not say which those are, all but what is built."""
    paths = in_git() or [path for path in ROOT.rglob("*") if not {"build", ".venv", ".git"} & set(path.relative_to(ROOT).parts)]
    return tuple(path for path in paths if path.is_file())


def files(*suffixes: str, under: str = "") -> list[Path]:
    return [path for path in tracked() if path.suffix in suffixes and relative(path).startswith(under)]


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def test_no_source_file_holds_a_second_noun() -> None:
    long = {relative(path): count for path in files(".c", ".h", ".py", ".pyx") if (count := len(path.read_text().splitlines())) > LINES_MAX}
    assert not long, f"past {LINES_MAX} lines: split by noun: {long}"


def test_lines_fit_a_screen() -> None:
    """Of C and Cython: Python's are ruff's, and clang-format leaves comments alone."""
    wide = [
        f"{relative(path)}:{number}"
        for path in files(".c", ".h", ".pyx", ".pxd")
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if len(line) > COLUMNS_MAX
    ]
    assert not wide, f"past {COLUMNS_MAX} columns: {wide}"


def c_rooms() -> list[str]:
    return sorted(path.name for path in CSRC.iterdir() if path.is_dir() and path.name != "__pycache__")


@pytest.mark.parametrize("room", c_rooms())
def test_c_rooms_include_only_what_lies_below_them(room: str) -> None:
    assert room in C_ROOMS, f"csrc/{room} is new: say in C_ROOMS what it stands on"
    wrong = []
    for path in files(".c", ".h", under=f"csrc/{room}/"):
        for name in re.findall(r'#\s*include\s+"([^"]+)"', path.read_text()):
            target = (path.parent / name).resolve()
            if not target.exists():
                target = CSRC / name
            included = target.relative_to(CSRC).parts[0]
            if included != room and included not in C_ROOMS[room]:
                wrong.append(f"{relative(path)} includes {name}")
    assert not wrong, wrong


def test_the_tables_of_rooms_name_no_room_that_is_gone() -> None:
    assert set(C_ROOMS) == set(c_rooms())
    gone = set().union(*PYTHON_LEVELS) - {path.stem for path in PACKAGE.iterdir()}
    assert not gone, f"PYTHON_LEVELS: there is no rocketpy/{gone}"


def level_of(module: str) -> int | None:
    return next((level for level, names in enumerate(PYTHON_LEVELS) if module in names), None)


def imported_names(path: Path) -> Iterator[tuple[list[str], int]]:
    """(dotted name below rocketpy that a file imports, line), whether at its top, inside a function or for types only."""
    package = path.relative_to(ROOT).parent.parts
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom):
            base = list(package[: len(package) - node.level + 1]) if node.level else []
            full = [*base, *(node.module.split(".") if node.module else [])]
            targets = [[*full, alias.name] for alias in node.names]
        elif isinstance(node, ast.Import):
            targets = [alias.name.split(".") for alias in node.names]
        else:
            continue
        for target in targets:
            if target[0] == "rocketpy" and len(target) > 1:
                yield target[1:], node.lineno


def test_python_imports_point_down() -> None:
    wrong = []
    for path in files(".py", under="rocketpy/"):
        parts = path.relative_to(PACKAGE).parts
        own = parts[0].removesuffix(".py")
        level = level_of(own)
        if own == "__init__":
            continue
        assert level is not None, f"rocketpy/{own} is new: give it a place in PYTHON_LEVELS"
        for name, line in imported_names(path):
            target = level_of(name[0])
            if target is not None and target > level:
                wrong.append(f"{relative(path)}:{line} imports {name[0]}, which stands above it")
    assert not wrong, wrong


def test_python_modules_import_in_no_circle() -> None:
    def module_of(name: list[str]) -> Path | None:
        """The file that holds the name; None for a compiled one."""
        candidates = (PACKAGE.joinpath(*name[:size]) for size in range(len(name), 0, -1))
        return next((file for path in candidates for file in (path.with_suffix(".py"), path / "__init__.py") if file.exists()), None)

    imports = {
        path: {module for name, _ in imported_names(path) if (module := module_of(name)) is not None} - {path}
        for path in files(".py", under="rocketpy/")
    }
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        pytest.fail(f"move what they share into a file of its own: {' imports '.join(relative(path) for path in reversed(error.args[1]))}")


def test_every_dependency_is_one_that_the_package_imports() -> None:
    """By a statement, or by its name where only a file of it is wanted."""
    named = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    modules = {re.match(r"[\w-]+", text)[0].replace("-", "_") for text in named}  # type: ignore[index]
    source = "\n".join(path.read_text() for path in files(".py", under="rocketpy/"))
    unused = {name for name in modules if not re.search(rf"^\s*(import|from) {name}\b|find_spec\(\"{name}\"\)", source, re.MULTILINE)}
    assert not unused, f"nothing in rocketpy/ imports {unused}: an extra, or nothing at all"


def test_the_source_distribution_has_every_file() -> None:
    """But what git alone needs: `make lint` and `make test` run from it. pyproject.toml tells which modules of rocketpy/ go in."""
    if not in_git():
        pytest.skip("git does not say which files are the repository's")
    manifest = FileList()
    manifest.allfiles = [relative(path) for path in tracked()]
    for line in (ROOT / "MANIFEST.in").read_text().splitlines():
        manifest.process_template_line(line)
    by_itself = {"MANIFEST.in", "pyproject.toml", "setup.py", *(relative(path) for path in files(".py", under="rocketpy/"))}
    left_out = {*manifest.allfiles} - {*manifest.files} - by_itself - {".gitignore"}
    assert not left_out, "MANIFEST.in does not name them"


def test_the_umbrella_header_includes_every_public_header_once() -> None:
    text = (CSRC / "rocketpy.h").read_text()
    names = re.findall(r'#include "([^"]+)"', text)
    assert len(names) == len(set(names))
    missing = [name for name in names if not (CSRC / name).exists()]
    assert not missing, f"rocketpy.h includes files that are gone: {missing}"


def test_the_export_list_names_exactly_the_functions_of_public_headers() -> None:
    from tests.exports import map_text

    assert (CSRC / "rocketpy.map").read_text() == map_text(), "csrc/rocketpy.map is not what the headers say: make exports"


def test_the_library_lets_out_nothing_but_the_export_list() -> None:
    done = subprocess.run(
        ["nm", "-D", "--defined-only", str(PACKAGE / "_core" / "librocketpy.so")], capture_output=True, text=True, check=True
    )
    symbols = {line.split()[-1].split("@")[0] for line in done.stdout.splitlines() if " T " in line}
    listed = set(re.findall(r"^\s+(rp_\w+);", (CSRC / "rocketpy.map").read_text(), re.MULTILINE))
    assert symbols == listed


def test_every_status_has_an_exception_of_its_own() -> None:
    numbers = dict(re.findall(r"(RP_E_\w+) = (-\d+)", (CSRC / "base" / "error.h").read_text()))
    assert numbers
    missing = {name: number for name, number in numbers.items() if int(number) not in errors.BY_STATUS}
    assert not missing, f"rocketpy/_core/errors.py has no class for {missing}"
    assert len({cls.__name__ for cls in errors.BY_STATUS.values()}) == len(numbers)


def test_every_native_module_has_a_stub_and_declarations() -> None:
    for path in files(".pyx", under="rocketpy/_core/"):
        assert path.with_suffix(".pyi").exists(), f"{relative(path)} has no stub"


def test_every_source_file_begins_by_saying_what_it_is() -> None:
    silent = []
    for path in files(".c", ".h", under="csrc/"):
        if not path.read_text().startswith(f"/* {path.name}: "):
            silent.append(relative(path))
    for path in files(".py", under="rocketpy/"):
        if ast.get_docstring(tree(path)) is None:
            silent.append(relative(path))
    for path in files(".pyx", ".pxd", under="rocketpy/_core/"):
        if not path.read_text().startswith(f"# {path.name}: "):
            silent.append(relative(path))
    assert not silent, f"no head comment (C: `/* name.c: what it is`): {silent}"


def test_include_guards_are_named_after_their_path() -> None:
    wrong = []
    for path in files(".h", under="csrc/"):
        guard = "RP_" + "_".join(path.relative_to(CSRC).with_suffix("").parts).upper() + "_H"
        if f"#ifndef {guard}\n#define {guard}\n" not in path.read_text():
            wrong.append(f"{relative(path)}: {guard}")
    assert not wrong, wrong


def test_comments_and_pages_name_only_what_is_there() -> None:
    """Functions, types and constants of C, and in its comments the files of csrc."""
    comment = re.compile(r"/\*.*?\*/", re.DOTALL)
    sources = {path: path.read_text() for path in files(".c", ".h")}
    name, file = re.compile(r"\b(?:rp|RP)_\w*[A-Za-z0-9]\b"), re.compile(r"\b[a-z][a-z0-9_]*\.[ch]\b")
    known = {word for text in sources.values() for word in name.findall(comment.sub(" ", text))} | {path.name for path in sources}
    said = {path: "\n".join(comment.findall(text)) for path, text in sources.items()} | {path: path.read_text() for path in files(".md")}
    gone = [
        f"{relative(path)}: {word}"
        for path, text in said.items()
        for word in sorted({*name.findall(text), *(file.findall(text) if path in sources else ())} - known)
    ]
    assert not gone, f"there is no such function, type, constant or file (any more): {gone}"


def found(pattern: str, paths: list[Path]) -> list[str]:
    expression = re.compile(pattern, re.MULTILINE)
    hits = []
    for path in paths:
        text = path.read_text()
        hits += [f"{relative(path)}:{text.count(chr(10), 0, match.start()) + 1}" for match in expression.finditer(text)]
    return hits


@pytest.mark.parametrize(("pattern", "instead"), BANNED_WORDS.items())
def test_banned_words_are_absent(pattern: str, instead: str) -> None:
    hits = found(pattern, files(".c", ".h", under="csrc/") + files(".py", ".pyx", ".pxd", under="rocketpy/"))
    assert not hits, f"{instead}: {hits}"


@pytest.mark.parametrize(("pattern", "instead"), BANNED_C.items())
def test_banned_calls_are_absent_from_c(pattern: str, instead: str) -> None:
    hits = found(pattern, files(".c", ".h", under="csrc/"))
    assert not hits, f"{instead}: {hits}"


@pytest.mark.parametrize(("pattern", "instead"), BANNED_PYTHON.items())
def test_banned_calls_are_absent_from_python(pattern: str, instead: str) -> None:
    hits = found(pattern, [path for path in files(".py", under="rocketpy/") if "cli" not in path.parts and relative(path) not in PAUSES])
    assert not hits, f"{instead}: {hits}"


LOCKS_OF: dict[str | tuple[str, str], str] = {
    "auth_gate": "auth_table", "dledger_log": "dledger", "reactor": "rp_server", "worker": "load",
    ("lane", "pop_locks"): "broker", ("lane", "reason_mutex"): "settings", ("dledger_log", "read_lock"): "follower",
    ("reactor", "turn_lock"): "reactor", ("reactor", "tls_lock"): "server",
}  # fmt: skip
"""Headers, and single locks of them, that are called by another noun."""


def test_every_lock_of_c_is_in_the_table_of_locks() -> None:
    told = (ROOT / "docs" / "locks.md").read_text()
    untold = []
    for path in (each for each in files(".c", ".h") if each.is_relative_to(CSRC)):
        stem = path.stem.removesuffix("_inl")
        for name in re.findall(r"^    pthread_(?:mutex|rwlock)_t (\w+)(?:\[\w+\])?;", path.read_text(), re.MULTILINE):
            whole = f"{LOCKS_OF.get((stem, name)) or LOCKS_OF.get(stem, stem)}.{name}"
            if f"`{whole}`" not in told:
                untold.append(f"{relative(path)}: {whole}")
    assert not untold, f"say in docs/locks.md what they guard, and what is locked under them: {untold}"


def test_no_mutable_globals_in_c() -> None:
    """Objects in .data and .bss of the library; what the loader relocates once lies elsewhere (.data.rel.ro)."""
    library = str(PACKAGE / "_core" / "librocketpy.so")
    sections = subprocess.run(["readelf", "-SW", library], capture_output=True, text=True, check=True).stdout
    indices = set(re.findall(r"\[\s*(\d+)\] \.(?:data|bss)\s", sections))
    symbols = subprocess.run(["readelf", "-sW", library], capture_output=True, text=True, check=True).stdout
    objects = re.findall(r"\d+: [0-9a-f]+ +\S+ OBJECT +\S+ +\S+ +(\d+) (\S+)", symbols)
    # completed.0 and names of two underscores are the compiler's own.
    mutable = {name for index, name in objects if index in indices and name != "completed.0" and not name.startswith("__")}
    assert not mutable, f"no mutable C globals: put it into the object that owns it: {mutable}"

"""The C code under sanitizers: `sanitize.py tests`, `sanitize.py compile`, `sanitize.py fuzz`, `sanitize.py debug COMMAND`.

tests   every tests/unit/c/*_test.c under AddressSanitizer + UBSan, those that can start a thread again under ThreadSanitizer, and the tests
        through cffi and of the wrappers and whole servers in a Python that has AddressSanitizer preloaded.
compile what tests begins with.
fuzz    every csrc/**/*_fuzz.c with libFuzzer (clang); where there is no clang, with the mutating driver tests/fuzz_driver.c under gcc.
debug   `rocketpy COMMAND` on the library with AddressSanitizer + UBSan.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.native_build import (
    ROOT,
    SANITIZED,
    Library,
    build_c_test,
    build_library,
    build_program,
    c_test_environment,
    c_test_programs,
    fuzzers,
    sources_behind,
)

SANITIZER_OPTIONS = {
    "ASAN_OPTIONS": "abort_on_error=1:detect_stack_use_after_return=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
}


def run_program(program: Path) -> subprocess.CompletedProcess[str]:
    """One that hangs is ended and counts as failed with the exit code of timeout(1)."""
    environment = os.environ | SANITIZER_OPTIONS | c_test_environment()
    try:
        done = subprocess.run([program], capture_output=True, timeout=300, check=False, env=environment)
        code, said = done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired as hung:
        code, said = 124, b"%b%b\nended after %d s" % (hung.stdout or b"", hung.stderr or b"", hung.timeout)
    return subprocess.CompletedProcess([program], code, said.decode(errors="replace"))


SAME_AT_EACH_CALL = {"compaction_killed_test", "ledger_power_cut_test", "power_cut_test", "recovery_killed_test"}
"""They open, fill and close a store again and again, and die or fail at another call each time. ThreadSanitizer, for which that takes
minutes, sees the same threads in message_store_test and recovery_test."""


def starts_threads(program: Path) -> bool:
    """It, or what the linker took in of the library, calls pthread_create."""
    return b"\0pthread_create" in program.read_bytes()


REPORTS = ROOT / "build" / "sanitizers.txt"
"""What those that failed in this run said; .ci/run shows it at its end."""


def report(name: str, output: str) -> None:
    print(output, flush=True)
    with REPORTS.open("a") as reports:
        reports.write(f"--- {name}\n{output}\n")


def run_one(sanitizer: str, library: Library, source: Path) -> tuple[Path, bool]:
    """Builds it and runs it; the program, and whether all was well."""
    program = build_c_test(library, source)
    begun = time.monotonic()
    done = run_program(program)
    passed = done.returncode == 0
    if not passed:
        report(f"{sanitizer} {source.stem}", done.stdout)
    state = "ok" if passed else f"FAILED (exit {done.returncode})"
    print(f"  {sanitizer:8} {source.stem:36} {state:20} {time.monotonic() - begun:5.1f} s", flush=True)
    return program, passed


def run_programs(sources: list[Path]) -> list[str]:
    """Under each sanitizer; what failed. Three at once on each core: most of them wait most of the time, and on a busy machine they tell
    more. The second library is compiled meanwhile."""
    address = build_library("address")
    passed_address, threaded = [], []
    with ThreadPoolExecutor(1) as compiler, ThreadPoolExecutor(3 * (os.cpu_count() or 1)) as pool:
        thread = compiler.submit(build_library, "thread")

        def both(source: Path) -> list[str]:
            program, passed = run_one("address", address, source)
            failed = [] if passed else [f"address {source.stem}"]
            if passed:
                passed_address.append(source.stem)
            if source.stem not in SAME_AT_EACH_CALL and starts_threads(program):
                threaded.append(source)
                if not run_one("thread", thread.result(), source)[1]:
                    failed.append(f"thread {source.stem}")
            return failed

        failed = [name for names in pool.map(both, sources) for name in names]
    assert threaded, "none of the programs seems to start a thread"
    SANITIZED.write_text("".join(f"{name}\n" for name in sorted(passed_address)))
    return failed


def address_environment(library: Library) -> dict[str, str]:
    """What makes any Python process use the instrumented library: the wrappers find it by LD_LIBRARY_PATH before their own rpath."""
    runtime = subprocess.run([*library.compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True).stdout.strip()
    return {
        **os.environ,
        **SANITIZER_OPTIONS,
        # Python keeps memory until exit on purpose: leaks are looked for in the C programs.
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1",
        "LD_PRELOAD": runtime,
        "LD_LIBRARY_PATH": str(library.directory),
        "ROCKETPY_LIBRARY": str(library.whole),
        "PYTHONMALLOC": "malloc",
        "ROCKETPY_SANITIZED": "1",
    }


WHOLE_PROCESS = "tests/unit/cli/test_up.py::test_the_check_sends_messages_and_gets_all_of_them_back"


def python_tests() -> list[Path | str]:
    """Tests that load the library by its path (cffi), and those of the wrappers and of a whole server process. A process of its own takes
    twenty times as long to start here: one is enough."""
    tests = ROOT / "tests"
    loaders = ("tests.unit.native import", "tests.unit.sql_filter import")
    candidates = [path for path in sorted(tests.rglob("test_*.py")) if path.parent != tests / "interop"]
    through_cffi = [path for path in candidates if any(loader in path.read_text() for loader in loaders)]
    return [*through_cffi, tests / "unit" / "core", WHOLE_PROCESS]


def run_python_tests() -> list[str]:
    environment = address_environment(build_library("address"))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout=600", *map(str, python_tests())]
    done = subprocess.run(command, env=environment, check=False, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    output = done.stdout.decode(errors="replace")
    if done.returncode == 0:
        print(output, flush=True)
        return []
    report("tests of the wrappers", output)
    return ["tests of the wrappers"]


def run_all() -> list[str]:
    """The Python tests mostly wait, for processes and clocks: they run beside the programs."""
    for of_last_run in (REPORTS, SANITIZED):
        of_last_run.unlink(missing_ok=True)
    assert {source.stem for source in c_test_programs()} >= SAME_AT_EACH_CALL, "one of them has another name"
    build_library("address")  # which both need
    with ThreadPoolExecutor(1) as pool:
        of_wrappers = pool.submit(run_python_tests)
        return run_programs(c_test_programs()) + of_wrappers.result()


def debug(arguments: list[str]) -> int:
    """Runs the rocketpy command on the instrumented library."""
    environment = address_environment(build_library("address"))
    return subprocess.run([sys.executable, "-m", "rocketpy", *arguments], env=environment, check=False, cwd=ROOT).returncode


def fuzzed_library(*flags: str) -> Library:
    """A quarter of the library, unless what clang makes of that refers to more than what gcc made of it does."""
    library = build_library("fuzzer", "clang", *flags, sources=sources_behind(fuzzers()))
    try:
        for source in fuzzers():
            build_program(library, source, "-fsanitize=fuzzer")
    except RuntimeError as error:
        print(f"all of the library is needed: {error}")
        return build_library("fuzzer", "clang", *flags)
    return library


OPTIMIZED_FROM_S = 300
"""clang takes a minute and a half longer to make code that tries twice as many inputs a second."""


def run_fuzzers(name: str, seed: int, seconds: int) -> list[str]:
    """`seconds` are shared out; as many run at once as there are cores."""
    chosen = [source for source in fuzzers() if name in source.stem]
    if not chosen:
        print(f"no fuzzer is named {name!r}; there are: {', '.join(source.stem for source in fuzzers())}")
        return ["fuzz"]
    clang = shutil.which("clang")
    compile_fast = ("-O0",) if clang and seconds < OPTIMIZED_FROM_S else ()
    library = fuzzed_library(*compile_fast) if clang else build_library("address")
    share = max(1, seconds // len(chosen))
    print(f"fuzzing with {'libFuzzer' if clang else 'the built-in driver (no clang here)'}, seed {seed}, {share} s each")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        passed = pool.map(lambda source: fuzz_one(library, source, bool(clang), seed, share), chosen)
        return [source.stem for source, is_sound in zip(chosen, passed, strict=True) if not is_sound]


def fuzz_one(library: Library, source: Path, with_clang: bool, seed: int, seconds: int) -> bool:
    corpus = ROOT / "build" / "fuzz" / source.stem
    corpus.mkdir(parents=True, exist_ok=True)
    seeds = ROOT / "tests" / "fuzz" / source.stem.removesuffix("_fuzz")
    directories = [str(corpus), *([str(seeds)] if seeds.is_dir() else [])]
    if with_clang:
        program = build_program(library, source, "-fsanitize=fuzzer")
        limits = [f"-max_total_time={seconds}", f"-seed={seed}", "-max_len=65536", "-timeout=60", "-rss_limit_mb=2048"]
        command = [str(program), *limits, "-print_final_stats=0", f"-artifact_prefix={corpus}/", *directories]
    else:
        program = build_program(library, source, str(ROOT / "tests" / "fuzz_driver.c"))
        command = [str(program), str(seed), str(seconds), *directories]
    log = corpus.with_suffix(".log")
    with log.open("w") as output:
        done = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, check=False, env=os.environ | SANITIZER_OPTIONS)
    lines = log.read_text(errors="replace").splitlines()
    print(f"  {source.stem:36} {'ok' if done.returncode == 0 else 'FAILED'}  {lines[-1] if lines else ''}", flush=True)
    if done.returncode != 0:
        print("\n".join(lines[-60:]))
    return done.returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("tests")
    verbs.add_parser("compile")
    fuzz = verbs.add_parser("fuzz")
    fuzz.add_argument("--name", default="")
    fuzz.add_argument("--seed", default="")
    fuzz.add_argument("--seconds", type=int, default=60)
    verbs.add_parser("debug").add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    if arguments.verb == "debug":
        return debug(arguments.command)
    if arguments.verb == "compile":
        build_library("address")
        return 0
    if arguments.verb == "tests":
        failed = run_all()
    else:
        seed = int(arguments.seed) if arguments.seed else random.SystemRandom().randrange(1, 2**31)
        failed = run_fuzzers(arguments.name, seed, arguments.seconds)
    if failed:
        print("failed: " + ", ".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""Each tests/unit/c/*_test.c is compiled against the library and run: exit 0 passed, 77 needs what is not here (and says what), anything
else failed.

As many at once as there are cores: part of the time is the compiler's, and most programs wait for clocks or disks. .ci/run, which runs all
of them under sanitizers first, sets ROCKETPY_PROGRAMS=rest: then only those are left that failed there or do less there.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.native_build import Library, build_c_test, build_library, c_test_environment, c_test_programs, c_test_programs_not_sanitized
from tests.nghttp2 import is_promised

Run = subprocess.CompletedProcess[str]
NOT_HERE = 77
PROGRAMS = c_test_programs_not_sanitized() if os.environ.get("ROCKETPY_PROGRAMS") == "rest" else c_test_programs()


def build_and_run(source: Path, library: Library, environment: dict[str, str]) -> Run:
    program = build_c_test(library, source)
    return subprocess.run([program], capture_output=True, text=True, timeout=250, check=False, env=environment)


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest) -> Iterator[dict[Path, Future[Run]]]:
    """Of the programs whose tests were chosen."""
    library, environment = build_library(), os.environ | c_test_environment()
    tests = [item for item in request.session.items if isinstance(item, pytest.Function) and item.module is request.module]
    chosen = [test.callspec.params["source"] for test in tests]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield {source: pool.submit(build_and_run, source, library, environment) for source in chosen}
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("source", PROGRAMS, ids=lambda source: source.stem)
def test_program_exits_with_zero(source: Path, runs: dict[Path, Future[Run]]) -> None:
    done = runs[source].result()
    if done.returncode == NOT_HERE and not is_promised():
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}{done.stderr}"

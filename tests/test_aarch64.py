"""aarch64, where the tests run on another machine: csrc/ by a cross compiler, and its programs under qemu-user (`make aarch64`)."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.native_build import BUILD, Library, build_c_test, c_test_programs

COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
LIBRARIES = Path("/usr/aarch64-linux-gnu")  # of libc6-arm64-cross: qemu's -L
AARCH64 = (183).to_bytes(2, "little")  # e_machine
NOT_HERE = 77
PATIENCE_S = 1200  # qemu translates, and some of the programs open a store a thousand times
QEMU_LACKS = {
    "broker_question_memory_test": "limits of memory",
    "new_queue_test": "madvise: pages are read that nobody asks for",
}


@pytest.fixture(scope="module")
def library() -> Library:
    if platform.machine() == "aarch64":
        pytest.skip("the other tests are of aarch64 here")
    if shutil.which(COMPILER) is None:
        pytest.skip(f"no {COMPILER}: apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross")
    command = [COMPILER, "-x", "c", "-fsyntax-only", "-"]
    if subprocess.run(command, input=b"#include <stdio.h>\n", capture_output=True, check=False).returncode != 0:
        pytest.skip("no C library for aarch64: apt-get install libc6-dev-arm64-cross")
    made = Library(BUILD, COMPILER, ("-Werror",))
    made.build()
    return made


def test_it_compiles_without_a_warning(library: Library) -> None:
    assert library.path.read_bytes()[18:20] == AARCH64


@pytest.mark.slow
@pytest.mark.timeout(PATIENCE_S + 60)
@pytest.mark.parametrize("source", c_test_programs(), ids=lambda source: source.stem)
def test_program_exits_with_zero(source: Path, library: Library) -> None:
    if shutil.which(EMULATOR) is None:
        pytest.skip(f"no {EMULATOR}: apt-get install qemu-user")
    if source.stem in QEMU_LACKS:
        pytest.skip(f"qemu-user has no {QEMU_LACKS[source.stem]}")
    program = build_c_test(library, source)
    environment = os.environ | {"ROCKETPY_TEST_LIBURING": ""}
    done = subprocess.run(
        [EMULATOR, "-L", LIBRARIES, program], capture_output=True, text=True, timeout=PATIENCE_S, check=False, env=environment
    )
    if done.returncode == NOT_HERE:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}{done.stderr}"

"""The build of the native library: what was broken off is gone on with, and what changed is compiled."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.native_build import Library


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Library]:
    """Builds a library of one source."""
    module = sys.modules[Library.__module__]
    sources = tmp_path / "csrc"
    sources.mkdir()
    (sources / "one.c").write_text("int one(void);\nint one(void) { return 1; }\n")
    (sources / "rocketpy.map").write_text("{ global: one; local: *; };\n")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "CSRC", sources)
    return lambda: Library(tmp_path / "build")


def test_a_build_that_was_broken_off_before_it_was_linked_is_linked_next_time(
    make: Callable[[], Library], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = make()
    library.build()
    before = library.archive.read_bytes()
    (tmp_path / "csrc" / "one.c").write_text("int one(void);\nint one(void) { return 2; }\n")
    os.utime(tmp_path / "csrc" / "one.c", (2e9, 2e9))

    def interrupted(*arguments: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(type(library), "link", interrupted)
        library.build()
    object_file = library.directory / "one.o"
    os.utime(object_file, (2.1e9, 2.1e9))  # compiled after the source was written
    library.build()
    assert library.archive.read_bytes() != before


def test_a_program_is_compiled_again_when_a_header_beside_it_changed(make: Callable[[], Library], tmp_path: Path) -> None:
    library = make()
    library.build()
    source, header, program = tmp_path / "says.c", tmp_path / "says.h", tmp_path / "says"
    source.write_text('#include "says.h"\nint main(void) { return SAYS; }\n')
    exits = []
    for number in (3, 4):
        header.write_text(f"#define SAYS {number}\n")
        os.utime(header, (2e9 + number, 2e9 + number))
        library.program(source, program)
        os.utime(program, (2e9 + number, 2e9 + number))
        exits.append(os.waitstatus_to_exitcode(os.system(str(program))))
    assert exits == [3, 4]

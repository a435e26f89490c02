"""Which headers the tests of C code read (tests/unit/native.py)."""

from pathlib import Path

import pytest

from tests.unit import native


@pytest.mark.parametrize(
    ("head", "is_left_out"),
    [
        ("/* room.h: a room. C only. */", True),
        ("/* room.h: a room with a long description. C\n * only.\n */", True),
        ("/* room.h: a room. */\n/* C only. */", False),
    ],
)
def test_a_header_is_left_out_if_its_head_says_so_on_one_line_or_two(tmp_path: Path, head: str, is_left_out: bool) -> None:
    header = tmp_path / "room.h"
    header.write_text(head)
    assert native.is_for_c_only(header) == is_left_out

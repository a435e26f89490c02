"""The .properties reader against a library of the same format, and its own writer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.config.properties import edit_properties, format_properties, read_properties

TEXT = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\x0b\x1c\x1d\x1e\x85\u2028\u2029\x0c\r"), max_size=20)
KEYS = st.text(alphabet="abc .:=#!\\é", min_size=1, max_size=8)


@given(st.text(alphabet="ab=: \t\\\n#!unft0", max_size=60))
def test_any_text_reads_as_another_implementation_reads_it(text: str) -> None:
    javaproperties = pytest.importorskip("javaproperties")
    try:
        expected = javaproperties.loads(text, object_pairs_hook=list)
    except javaproperties.InvalidUEscapeError:
        read_properties(text)  # ours takes a broken \u escape for its letters
        return
    assert [(entry.key, entry.value) for entry in read_properties(text)] == [(key, value.strip()) for key, value in expected]


@given(st.dictionaries(KEYS, TEXT.map(str.strip)))
def test_what_was_written_is_read_back(values: dict[str, str]) -> None:
    assert {entry.key: entry.value for entry in read_properties(format_properties(values))} == values


@given(st.text(alphabet="ab=: \\\n#", max_size=60), st.dictionaries(st.sampled_from("abcd"), TEXT.map(str.strip)))
def test_editing_sets_these_keys_and_no_others(text: str, changes: dict[str, str]) -> None:
    before = {entry.key: entry.value for entry in read_properties(text)}
    after = {entry.key: entry.value for entry in read_properties(edit_properties(text, changes))}
    assert after == {**before, **changes}

"""The .properties reader against a library of the same format, and its own writer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.config.properties import Entry, edit_properties, format_properties, read_properties

TEXT = st.text(alphabet=st.characters(codec="utf-8"), max_size=20)
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


@pytest.mark.parametrize("separator", ["\x0b", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"])
def test_only_line_feeds_and_carriage_returns_end_a_line(separator: str) -> None:
    hidden = read_properties(f"a = x\\u{ord(separator):04x}kvConfigPath=/etc/passwd\r\nb=2\rc=3\n")
    assert hidden == [Entry("a", f"x{separator}kvConfigPath=/etc/passwd", 1, 1), Entry("b", "2", 2, 2), Entry("c", "3", 3, 3)]
    assert read_properties(edit_properties("", {hidden[0].key: hidden[0].value})) == hidden[:1]


@pytest.mark.parametrize(("escaped", "value"), [("\\ud83d\\ude00", "😀"), ("\\ud83d", "\ufffd"), ("\\ude00\\ud83d", "\ufffd\ufffd")])
def test_escaped_surrogates_are_one_character_and_lone_ones_none_that_utf_8_lacks(escaped: str, value: str) -> None:
    assert [entry.value for entry in read_properties(f"a={escaped}")] == [value]


@given(st.dictionaries(KEYS, TEXT.map(str.strip)))
def test_what_was_written_is_read_back(values: dict[str, str]) -> None:
    assert {entry.key: entry.value for entry in read_properties(format_properties(values))} == values


@given(st.text(alphabet="ab=: \\\r\n#", max_size=60), st.dictionaries(st.sampled_from("abcd"), TEXT.map(str.strip)))
def test_editing_sets_these_keys_and_no_others(text: str, changes: dict[str, str]) -> None:
    before = {entry.key: entry.value for entry in read_properties(text)}
    after = {entry.key: entry.value for entry in read_properties(edit_properties(text, changes))}
    assert after == {**before, **changes}


@pytest.mark.parametrize(
    ("text", "edited"),
    [
        ("# mine\r\na=1\\\r\n 2\r\n\r\nb=2\r\n", "# mine\r\na=3\r\n\r\nb=2\r\nc=4\r\n"),
        ("# mine\ra=1", "# mine\ra=3\rc=4\r"),
        ("a=1\r\nb=2\na=2\n", "b=2\na=3\nc=4\r\n"),
        ("a=1\nb=2\\\r\\", "a=3\nb=2\\\r\rc=4\n"),
    ],
)
def test_lines_end_as_they_did(text: str, edited: str) -> None:
    assert edit_properties(text, {"a": "3", "c": "4"}) == edited

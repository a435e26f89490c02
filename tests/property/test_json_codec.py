"""fastjson's JSON: round trips, tolerance, and hostile text."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.remoting.json_codec import (
    DEPTH_MAX,
    TOLERANT_MAX,
    JsonError,
    ObjectKey,
    _Reader,
    is_deeper,
    read_json,
    write_fastjson,
    write_json,
)

SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


def mentions_references(value: Any) -> bool:
    return "$ref" in json.dumps(value)


@given(VALUES)
def test_standard_json_is_read_back(value: Any) -> None:
    if not mentions_references(value):
        assert read_json(write_json(value)) == value


@given(VALUES)
def test_fastjsons_form_is_standard_json_when_no_key_is_special(value: Any) -> None:
    if not mentions_references(value):
        text = write_fastjson(value).decode()
        assert json.loads(text) == without_nulls(value)
        assert json.loads(write_fastjson(value, pretty=True)) == without_nulls(value)


KEYS = st.text() | st.integers(-9, 99) | st.sampled_from(["0", "-7", "1.5", "true", "127.0.0.1:10911", "null"])
OBJECT_KEYS = st.builds(lambda topic, queue: ObjectKey.of(topic=topic, queueId=queue), st.text(), st.integers(0, 9))
ANY_VALUES = st.recursive(
    SCALARS | OBJECT_KEYS,
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(KEYS, inner) | st.dictionaries(OBJECT_KEYS, inner),
    max_leaves=20,
)


@given(ANY_VALUES)
def test_what_the_c_writer_writes_is_what_the_general_one_writes(value: Any) -> None:
    """The latter writes what is pretty; in texts, tabs and line ends are escaped."""
    assert write_fastjson(value) == write_fastjson(value, pretty=True).translate(None, b"\n\t")


@pytest.mark.parametrize("levels", [DEPTH_MAX, DEPTH_MAX + 2, 600, 5000])
def test_what_is_nested_too_deeply_is_refused_by_either_writer(levels: int) -> None:
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    for pretty in (False, True):
        if levels <= DEPTH_MAX:
            assert write_fastjson(value, pretty=pretty)
        else:
            with pytest.raises(JsonError, match=f"nested deeper than {DEPTH_MAX}"):
                write_fastjson(value, pretty=pretty)


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(member) for key, member in value.items() if member is not None}
    return [without_nulls(member) for member in value] if isinstance(value, list) else value


@given(st.dictionaries(st.integers(-(2**31), 2**31), st.text()))
def test_bare_numeric_keys_are_read_back_as_text(value: dict[int, str]) -> None:
    assert read_json(write_fastjson({"table": value})) == {"table": {str(key): member for key, member in value.items()}}


@given(
    st.dictionaries(
        st.builds(lambda t, b, q: ObjectKey.of(topic=t, brokerName=b, queueId=q), st.text(), st.text(), st.integers(0, 9)), st.integers()
    )
)
def test_objects_as_keys_are_read_back(value: dict[ObjectKey, int]) -> None:
    read = read_json(write_fastjson({"offsetTable": value}))["offsetTable"]
    assert read == value
    assert all(key["topic"] == dict(key)["topic"] for key in read)


@given(st.text(alphabet="{}[]\",:'\\0123456789eE+-.LSBFDtruefalsnNaIy $@/*\n", max_size=80))
def test_no_text_raises_anything_but_json_error(text: str) -> None:
    try:
        read_json(text)
    except JsonError:
        pass


@given(st.binary(max_size=80))
def test_no_bytes_raise_anything_but_json_error(data: bytes) -> None:
    try:
        read_json(data)
    except JsonError:
        pass


@given(VALUES, st.data())
def test_cut_text_is_refused(value: Any, data: st.DataObject) -> None:
    text = write_fastjson({"v": value})
    cut = data.draw(st.integers(0, len(text) - 1))
    with pytest.raises(JsonError):
        read_json(text[:cut])


@given(st.text(alphabet="{}[]\",:\\u dDcC08'7\n", max_size=60))
def test_numeric_keys_mean_the_same_to_the_fast_and_the_tolerant_parser(text: str) -> None:
    assert _value_or_none(lambda: read_json(text)) == _value_or_none(_Reader(text).read)


def _value_or_none(read: Callable[[], Any]) -> Any:
    try:
        return [read()]
    except JsonError:
        return None


@pytest.mark.parametrize(
    "text",
    [
        '{1:"{2:3}",4:5}',
        '{1:"a\\"{2:3}",4:5}',
        '{"a":"\\\\",1:2}',
        '{"a,1:":{-2 : 3}}',
        '{"\\ud83d\\ude00":{0:"\\uD83D\\uDE00"}}',
        '{"\\\\ud83d\\ude00":{0:1}}',
        '{"\\ude00\\ud83d":{0:1}}',
    ],
)
def test_what_looks_like_a_key_or_a_surrogate_in_a_string_is_left_alone(text: str) -> None:
    assert read_json(text) == _Reader(text).read()


def test_tables_by_queue_need_no_tolerant_parser_however_large_they_are() -> None:
    """Tens of MB of them come from a master's offsets; that parser, which refuses so much, needs 4 us a member."""
    table = write_fastjson({f"topic-{number}@group": dict.fromkeys(range(8), 1 << 40) for number in range(20_000)})
    assert len(table) > TOLERANT_MAX
    assert read_json(table)["topic-19999@group"]["7"] == 1 << 40


@pytest.mark.timeout(60)
def test_text_that_looks_like_keys_all_along_is_refused_in_one_pass() -> None:
    with pytest.raises(JsonError):
        read_json('{1:"' + '\\"' * (1 << 21))


def test_strange_text_from_the_wire_has_a_bound_and_that_from_files_has_not() -> None:
    text = "{" + "a:1," * (TOLERANT_MAX // 4) + "}"
    with pytest.raises(JsonError, match="no standard JSON; of such text at most"):
        read_json(text)
    assert read_json(text, tolerant_max=None) == {"a": 1}


TOLERATED: list[tuple[str, Any]] = [
    ("{0:\"a\",1L:'b'}", {"0": "a", "1": "b"}),
    ('{"brokerAddrs":{0:"127.0.0.1:10911",},}', {"brokerAddrs": {"0": "127.0.0.1:10911"}}),
    ('{{"b":1,"a":"x"}:{"x":2}}', {ObjectKey.of(a="x", b=1): {"x": 2}}),
    ("[1,,2,]", [1, 2]),
    ("{a:12L,b:1.5F,c:.5,d:Set[1,2],e:TreeSet[]}", {"a": 12, "b": 1.5, "c": 0.5, "d": [1, 2], "e": []}),
    ("{'k':'it\\'s'}", {"k": "it's"}),
    ('{"a":undefined,"b":null}', {"a": None, "b": None}),
    ('/* c */{"a":1}// end', {"a": 1}),
    ("{k:'\\x41\\u00e9\\v\\/'}", {"k": "Aé\x0b/"}),
    ('{k:"\\ud83d\\ude00"}', {"k": "😀"}),
    ('{"\\ud83d\\ude00":"\\uD800x","k":"\\\\ud800"}', {"😀": "\ufffdx", "k": "\\ud800"}),
    ("\ufeff{}", {}),
    ("[Infinity,-Infinity]", [math.inf, -math.inf]),
    ('{"a":{"x":1},"b":{"$ref":"$.a"},"c":{"$ref":"$.a.x"}}', {"a": {"x": 1}, "b": {"x": 1}, "c": 1}),
    ('5 // "$ref"', 5),
    ('{"a":[{"x":1},{"$ref":"$.a[0]"}],"b":[{"$ref":"$.a"},{"$ref":"$.a"}]}', {"a": [{"x": 1}] * 2, "b": [[{"x": 1}] * 2] * 2}),
    ('{"a.b":{"x":1},"c":{"$ref":"$.a\\\\.b"},"d":{"$ref":"$.nothing"}}', {"a.b": {"x": 1}, "c": {"x": 1}, "d": None}),
]


@pytest.mark.parametrize(("text", "value"), TOLERATED)
def test_what_fastjson_takes_is_taken(text: str, value: Any) -> None:
    assert read_json(text.encode()) == value


def test_nan_is_a_number() -> None:
    assert math.isnan(read_json("{k:NaN}")["k"])


REFUSED = [
    "",
    " ",
    "{",
    "[",
    '{"a"}',
    '{"a" 1}',
    '{"a":1 "b":2}',
    "[1 2]",
    "{a:}",
    "nope",
    '"open',
    "'open",
    "1 2",
    "{}{}",
    "[1]]",
    '"\\u12"',
    "Set",
    "-",
]


@pytest.mark.parametrize("text", REFUSED)
def test_what_nobody_takes_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(JsonError, match="at line 1, column"):
        read_json(text)


def test_the_place_is_counted_in_lines_and_columns() -> None:
    with pytest.raises(JsonError, match="at line 3, column 5"):
        read_json('{\n"a": 1,\n  b 2}')


@pytest.mark.parametrize("text", ["[" * 100_000, "{a:" * 100_000, "[" * (DEPTH_MAX + 2) + "]" * (DEPTH_MAX + 2) + "x"])
def test_deep_nesting_is_refused(text: str) -> None:
    with pytest.raises(JsonError):
        read_json(text)


@pytest.mark.parametrize(
    "text",
    [
        '{"a":{"$ref":"$"}}',
        '[[{"$ref":"@"}]]',
        '{"a":{"b":{"$ref":".."}}}',
        '{"a":{"b":{"$ref":"$.c"}},"c":[{"$ref":"$.a"}]}',
    ],
)
def test_references_that_lead_in_a_circle_are_refused(text: str) -> None:
    with pytest.raises(JsonError, match="circle"):
        read_json(text)


def test_references_that_stand_for_more_than_memory_holds_are_refused() -> None:
    doubled = ",".join(f'"{level}":[{{"$ref":"$.{level - 1}"}},{{"$ref":"$.{level - 1}"}}]' for level in range(1, 60))
    with pytest.raises(JsonError, match="more than 1000000 members"):
        read_json(f'{{"0":[1,2],{doubled}}}')


def test_config_files_are_written_as_rocketmq_writes_them() -> None:
    table = {"dataVersion": {"counter": 1}, "offsetTable": {"t@g": {0: 5, 1: 6}}, "empty": {}, "list": [1]}
    offsets = '"offsetTable":{\n\t\t"t@g":{\n\t\t\t0:5,\n\t\t\t1:6\n\t\t}\n\t}'
    expected = '{\n\t"dataVersion":{\n\t\t"counter":1\n\t},\n\t"empty":{},\n\t"list":[\n\t\t1\n\t],\n\t' + offsets + "\n}"
    assert write_fastjson(table, pretty=True).decode() == expected


@pytest.mark.parametrize("levels", [0, 1, 2, 7])
def test_nesting_is_counted_in_objects_and_lists(levels: int) -> None:
    value: object = "x"
    for level in range(levels):
        value = {"a": value, "b": 1} if level % 2 else [1, value]
    assert not is_deeper(value, levels) and (levels == 0 or is_deeper(value, levels - 1))

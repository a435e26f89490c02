"""Header classes: every one survives the wire, and what is missing or unreadable is refused by name."""

from __future__ import annotations

import dataclasses
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketpy.remoting import headers
from rocketpy.remoting.codes import RequestCode
from rocketpy.remoting.headers import (
    CreateTopicRequestHeader,
    EndTransactionRequestHeader,
    Header,
    HeaderError,
    PullMessageRequestHeader,
    SendMessageRequestHeader,
    SendMessageRequestHeaderV2,
    UnregisterClientRequestHeader,
    header_for,
)
from rocketpy.remoting.headers.base import I32, wire_header

CLASSES = [value for value in vars(headers).values() if isinstance(value, type) and issubclass(value, Header) and value is not Header]
SPECIAL = {"topic_filter_type": st.just("SINGLE_TAG"), "commit_or_rollback": st.sampled_from([0, 8, 12])}


def values_of(cls: type[Header]) -> st.SearchStrategy[dict[str, Any]]:
    def strategy(field: dataclasses.Field[Any]) -> st.SearchStrategy[Any]:
        kind = str(field.type)
        base: st.SearchStrategy[Any] = st.text()
        if "bool" in kind:
            base = st.booleans()
        elif "I32" in kind:
            base = st.integers(-(2**31), 2**31 - 1)
        elif "I64" in kind:
            base = st.integers(-(2**63), 2**63 - 1)
        base = SPECIAL.get(field.name, base)
        return st.none() | base if "None" in kind else base

    assert cls.plan is not None  # asking for it makes the class a dataclass
    return st.fixed_dictionaries({field.name: strategy(field) for field in dataclasses.fields(cls)})  # type: ignore[arg-type]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
@settings(max_examples=10)
@given(data=st.data())
def test_a_header_is_read_back_as_it_was_sent(cls: type[Header], data: st.DataObject) -> None:
    header = cls(**data.draw(values_of(cls)))
    fields = header.encode()
    assert all(isinstance(text, str) for text in fields.values())
    assert cls.decode(fields) == header
    assert cls.decode({**fields, "somethingNew": "x"}) == header


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_required_field_is_missed_by_name(cls: type[Header]) -> None:
    sample = {"str": "SINGLE_TAG", "bool": "true"}
    required = {
        field.wire_name: sample.get(str(cls.__dataclass_fields__[field.attribute].type), "0") for field in cls.plan if field.required
    }  # type: ignore[attr-defined]
    cls.decode(required)
    for name in required:
        with pytest.raises(HeaderError, match=f"^the custom field <{name}> is null$"):
            cls.decode({key: value for key, value in required.items() if key != name})


@pytest.mark.parametrize("text", ["", "x", "1x", " 1", "1.0", "0x10", "2147483648", "-2147483649", "٣", "1_0", "9" * 30, "+-1"])
def test_text_that_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(HeaderError, match="the custom field <queueId> is not a 32-bit number"):
        headers.GetMinOffsetRequestHeader.decode({"topic": "t", "queueId": text})


@pytest.mark.parametrize(("text", "value"), [("true", True), ("TRUE", True), ("false", False), ("yes", False), ("", False)])
def test_booleans_are_read_as_java_reads_them(text: str, value: bool) -> None:
    assert headers.GetMaxOffsetRequestHeader.decode({"topic": "t", "queueId": "0", "committed": text}).committed is value


def test_the_short_header_of_version_2_is_the_long_one() -> None:
    letters = dict(zip("abcdefghijklmn", ["g", "t", "d", "8", "1", "0", "12", "3", "p", "4", "true", "16", "false", "broker"], strict=True))
    header = SendMessageRequestHeaderV2.decode(letters)
    assert header.encode() == letters
    assert header.to_v1() == SendMessageRequestHeader(
        producer_group="g",
        topic="t",
        default_topic="d",
        default_topic_queue_nums=8,
        queue_id=1,
        sys_flag=0,
        born_timestamp=12,
        flag=3,
        properties="p",
        reconsume_times=4,
        unit_mode=True,
        max_reconsume_times=16,
        batch=False,
        bname="broker",
    )


def test_names_that_break_the_rule_are_renamed() -> None:
    assert UnregisterClientRequestHeader(client_id="c").encode() == {"clientID": "c"}


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ((EndTransactionRequestHeader, "commitOrRollback", "4"), "commitOrRollback field wrong"),
        ((CreateTopicRequestHeader, "topicFilterType", "X"), r"topicFilterType = \[X\] value invalid"),
    ],
)
def test_values_that_no_type_rules_out_are_refused(header: Any, message: str) -> None:
    cls, name, text = header
    fields = {field.wire_name: "0" for field in cls.plan if field.required} | {name: text}
    with pytest.raises(HeaderError, match=message):
        cls.decode(fields)


def test_threads_may_need_a_header_for_the_first_time_at_once() -> None:
    def fresh() -> Any:
        @wire_header()
        class General(Header):
            topic: str
            times: I32 = 3

        @wire_header()
        class Special(General):
            group: str | None = None

        return Special

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(20):
            kind, together = fresh(), threading.Barrier(4)

            def make(number: int, kind: Any = kind, together: threading.Barrier = together) -> Any:
                together.wait()
                return kind(topic="t") if number % 2 else kind.decode({"topic": "t"})

            with ThreadPoolExecutor(4) as pool:
                made = list(pool.map(make, range(4)))
            assert made == [kind(topic="t", times=3, group=None)] * 4
    finally:
        sys.setswitchinterval(before)


def test_a_header_is_made_of_what_it_has_and_of_nothing_else() -> None:
    with pytest.raises(TypeError, match="needs topic"):
        CreateTopicRequestHeader(default_topic="TBW102")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="has no topics"):
        UnregisterClientRequestHeader(client_id="c", topics="t")  # type: ignore[call-arg]


def test_request_codes_find_their_header() -> None:
    assert header_for(RequestCode.PULL_MESSAGE) is PullMessageRequestHeader
    assert header_for(RequestCode.LITE_PULL_MESSAGE) is PullMessageRequestHeader
    assert header_for(RequestCode.GET_ALL_DELAY_OFFSET) is None

"""Bodies of registrations: both forms, every release's, and hostile ones."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.remoting import bodies
from rocketpy.remoting.bodies import BodyError, DataVersion, RegisterBrokerBody, TopicConfig
from rocketpy.remoting.codes import VERSION_4_6_0
from rocketpy.remoting.route import BrokerData, QueueData, TopicRoute

NAMES = st.text(alphabet="abcXYZ09_-%|.", min_size=1, max_size=12)
COUNTS = st.integers(0, 1000)
VERSIONS = st.builds(DataVersion, st.integers(0, 2**50), COUNTS, COUNTS)
TOPICS = st.builds(TopicConfig, NAMES, COUNTS, COUNTS, st.integers(0, 7), attributes=st.dictionaries(NAMES, NAMES, max_size=2))
BODIES = st.builds(
    RegisterBrokerBody,
    st.lists(TOPICS, max_size=4).map(lambda topics: {topic.topic_name: topic for topic in topics}),
    VERSIONS,
    st.lists(NAMES, max_size=2).map(tuple),
    st.dictionaries(NAMES, st.just({}), max_size=2).map(lambda table: {name: {"topic": name, "bname": "b"} for name in table}),
)


@given(BODIES, st.booleans())
def test_a_registration_is_read_back_in_either_form(body: RegisterBrokerBody, compressed: bool) -> None:
    assert RegisterBrokerBody.decode(body.encode(compressed=compressed), compressed=compressed) == body


@given(BODIES)
def test_releases_before_5_0_end_before_the_mappings(body: RegisterBrokerBody) -> None:
    read = RegisterBrokerBody.decode(body.encode(compressed=True), compressed=True, version=VERSION_4_6_0)
    assert (read.topics, read.data_version, read.queue_mappings) == (body.topics, body.data_version, {})


@given(BODIES, st.data())
def test_a_cut_registration_is_refused(body: RegisterBrokerBody, data: st.DataObject) -> None:
    for compressed in (False, True):
        encoded = body.encode(compressed=compressed)
        with pytest.raises(BodyError, match="Failed to decode RegisterBrokerBody"):
            RegisterBrokerBody.decode(encoded[: data.draw(st.integers(0, len(encoded) - 1))], compressed=compressed)


@given(BODIES, st.integers(0, 10_000), st.integers(0, 255))
def test_a_changed_byte_inside_the_stream_never_raises_anything_else(body: RegisterBrokerBody, place: int, value: int) -> None:
    inflated = bytearray(zlib.decompress(body.encode(compressed=True)))
    inflated[place % len(inflated)] = value
    try:
        RegisterBrokerBody.decode(zlib.compress(bytes(inflated)), compressed=True)
    except BodyError:
        pass


def pieces(*parts: bytes | int) -> bytes:
    return zlib.compress(b"".join(struct.pack(">i", p) if isinstance(p, int) else struct.pack(">i", len(p)) + p for p in parts))


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        (b"plain", "not a zlib stream"),
        (pieces(-1), "a piece of -1 bytes announced at byte 0 of 4"),
        (pieces(2**31 - 1), "a piece of 2147483647 bytes"),
        (pieces(b"{}", 2**31 - 1), "2147483647 entries announced at byte 6, at most 0 of"),
        (pieces(b"{}", -5), "-5 entries announced"),
        (pieces(b"{}", 1, b"t 1 2", b"[]", 0), "Failed to decode RegisterBrokerBody: TopicConfig: expected at least 5 words"),
        *[
            (pieces(b"{}", 1, b"t " + number + b" 2 6 SINGLE_TAG", b"[]", 0), "readQueueNums: expected a whole number")
            for number in (b"one", b"--5", b"1-2", b"-", b"+1", b"1_0", b"9" * 20, b"0" * 30, "٣".encode())
        ],
        (pieces(b"{}", 1, b"\xff 1 2 6 X"), "not UTF-8"),
        (pieces(b"[]", 0), "expected an object"),
        (pieces(b"{}", 0), "End of compressed data has reached"),
    ],
)
def test_hostile_streams_are_refused_with_the_cause(body: bytes, cause: str) -> None:
    with pytest.raises(BodyError, match=cause):
        list(RegisterBrokerBody.decode(body, compressed=True).topics.values())


def test_a_bomb_is_not_inflated(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = zlib.compress(bytes(100_000))
    for free, inflated, said in ((1000, 1 << 27, 256 * len(bomb)), (50_000, 1 << 27, 50_000), (50_000, 1000, 1000)):
        monkeypatch.setattr(bodies, "INFLATED_FREE", free)
        monkeypatch.setattr(bodies, "INFLATED_MAX", inflated)
        with pytest.raises(BodyError, match=f"more than {said} bytes inflated, .* compressedRegister=false"):
            RegisterBrokerBody.decode(bomb, compressed=True)


def test_long_attributes_of_few_topics_are_a_registration() -> None:
    """They inflate to more than 256 times what is sent. A name server has no use for them: they are read as far as that goes."""
    topics = {f"t{number}": TopicConfig(f"t{number}", attributes={"note": "x" * 30_000}) for number in range(9)}
    sent = RegisterBrokerBody(topics).encode(compressed=True)
    assert 256 * len(sent) < len(zlib.decompress(sent))
    read = list(RegisterBrokerBody.decode(sent, compressed=True).topics.values())
    assert [topic.topic_name for topic in read] == list(topics) and read[0] == topics["t0"] and read[-1].attributes == {}


def mappings(text: bytes, count: int = 1) -> bytes:
    return pieces(b"{}", 0, b"[]", count, *[b'{"topic":"t","x":[' + text.removesuffix(b",") + b"]}"] * count)


@pytest.mark.parametrize("slow", [b"{a:1},", b'{"$ref":"$.topic"},'])
def test_json_that_costs_nothing_to_send_is_not_read_slowly(slow: bytes) -> None:
    """10 KB had the name server read bare words for 3 s."""
    for body in (mappings(slow * 100), mappings(slow * 2, 20)):  # what there is for one is for all
        with pytest.raises(BodyError, match="that are no standard JSON; of such text at most"):
            RegisterBrokerBody.decode(body, compressed=True)
    assert RegisterBrokerBody.decode(mappings(slow), compressed=True).queue_mappings.keys() == {"t"}


@pytest.mark.parametrize("fast", [b"{0:1},", b"[],"])
def test_json_is_read_as_far_as_a_broker_would_have_sent_it(fast: bytes) -> None:
    """Tables by queue among it."""
    assert RegisterBrokerBody.decode(mappings(fast * 1000), compressed=True).queue_mappings.keys() == {"t"}
    with pytest.raises(BodyError, match="characters of JSON where at most"):
        RegisterBrokerBody.decode(mappings(fast * 100_000), compressed=True)


def test_slow_attributes_are_read_as_far_as_they_were_sent() -> None:
    lines = [b"t%d 4 4 6 SINGLE_TAG {a:'%s'}" % (number, b"x" * 50) for number in range(9)]
    read = list(RegisterBrokerBody.decode(pieces(b"{}", len(lines), *lines, b"[]", 0), compressed=True).topics.values())
    assert read[0].attributes == {"a": "x" * 50} and read[-1].attributes == {}


def test_lines_that_cost_nothing_to_send_are_not_read() -> None:
    """10 KB had the name server read lines for 5 s, and nobody else was answered."""
    lines = [b"a 1 1 6 x"] * 1000
    with pytest.raises(BodyError, match=r"1000 entries announced at byte 6, at most (\d+) of \1 bytes that were sent"):
        RegisterBrokerBody.decode(pieces(b"{}", len(lines), *lines, b"[]", 0), compressed=True)


def test_topics_that_differ_in_a_number_alone_are_a_registration() -> None:
    """Nothing that a broker sends is shorter, or inflates to more."""
    attributes = {"message.type": "NORMAL", "note": "x" * 500}
    topics = {f"t{number:04d}": TopicConfig(f"t{number:04d}", attributes=attributes) for number in range(2000)}
    for sent in (topics, {name: TopicConfig(name) for name in topics}):
        assert RegisterBrokerBody.decode(RegisterBrokerBody(sent).encode(compressed=True), compressed=True).topics == sent


def test_a_repeated_registration_is_not_taken_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    body = RegisterBrokerBody({name: TopicConfig(name) for name in ("s", "t")})
    for compressed in (False, True):
        with monkeypatch.context() as patch:
            patch.delattr(TopicConfig, "from_json")
            assert RegisterBrokerBody.decode(body.encode(compressed=compressed), compressed=compressed).topics.keys() == {"s", "t"}


def test_unreadable_attributes_and_filter_servers_are_left_out_as_in_rocketmq() -> None:
    body = RegisterBrokerBody.decode(pieces(b"{}", 1, b"t 4 4 6 SINGLE_TAG {a b", b"nonsense", 0), compressed=True)
    assert (body.topics["t"].attributes, body.filter_servers) == ({}, ())


def test_a_registration_written_by_fastjson_is_read() -> None:
    written = (
        b'{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":{"counter":7,"stateVersion":0,"timestamp":9},'
        b'"topicConfigTable":{"t":{"attributes":{},"order":false,"perm":6,"readQueueNums":4,"topicFilterType":"SINGLE_TAG",'
        b'"topicName":"t","topicSysFlag":0,"writeQueueNums":4},"u":{"$ref":"$.topicConfigSerializeWrapper.topicConfigTable.t"}},'
        b'"topicQueueMappingInfoMap":{"s":{"currIdMap":{0:0},"topic":"s"}}}}'
    )
    body = RegisterBrokerBody.decode(written)
    assert body.topics["t"] == TopicConfig("t", 4, 4)
    assert body.data_version == DataVersion(9, 7, 0)
    assert body.queue_mappings["s"]["currIdMap"] == {"0": 0}


def test_versions_follow_each_other() -> None:
    assert DataVersion(1, 2, 3).next(4, now_ms=9) == DataVersion(9, 3, 4)


ROUTE = TopicRoute(
    (QueueData("a", 1, 2, 6, 0),), (BrokerData("c", "a", {0: "h:1", 3: "h:2"}, "z", True),), {"h:1": ("f:1",)}, "a:1", {"a": {"topic": "t"}}
)


@pytest.mark.parametrize("standard", [True, False])
@pytest.mark.parametrize("route", [ROUTE, TopicRoute((), ())])
def test_routes_are_read_back_in_either_form(route: TopicRoute, standard: bool) -> None:
    assert TopicRoute.decode(route.encode(standard=standard)) == route


@pytest.mark.parametrize("body", [b"", b"[]", b'{"queueDatas":5}', b'{"brokerDatas":[5]}', b'{"brokerDatas":[{"brokerAddrs":{"x":"y"}}]}'])
def test_routes_that_cannot_be_read_are_refused(body: Any) -> None:
    with pytest.raises(BodyError):
        TopicRoute.decode(body)

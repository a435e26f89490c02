"""The native remoting codec: what is encoded decodes to the same, what json writes is read, and no input breaks it."""

from __future__ import annotations

import json
import struct
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.native import ffi, lib, text

JSON, ROCKETMQ = 0, 1
LANGUAGES = [text(lib.rp_language_name(number)) for number in range(14)]

int32s = st.integers(-(2**31), 2**31 - 1)
int16s = st.integers(-(2**15), 2**15 - 1)
# Without lone surrogates, which no UTF-8 has.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
fields = st.dictionaries(texts, texts, max_size=20)
bodies = st.binary(max_size=200)


class Command(NamedTuple):
    code: int
    version: int
    opaque: int
    flag: int
    language: int
    remark: str | None
    fields: dict[str, str]
    body: bytes


commands = st.builds(Command, int16s, int16s, int32s, int32s, st.integers(0, 13), st.none() | texts, fields, bodies)


def bytes_of(piece: Any) -> bytes | None:
    return None if piece.data == ffi.NULL else bytes(ffi.buffer(piece.data, piece.size))


def encode(command: Command, serialize_type: int) -> bytes:
    keep = []

    def piece(data: bytes | None) -> tuple[Any, int]:
        if data is None:
            return ffi.NULL, 0
        # One byte more, so that an empty text is not an absent one.
        keep.append(ffi.new("uint8_t[]", data + b"\0"))
        return keep[-1], len(data)

    native = ffi.new("rp_command *")
    lib.rp_command_clear(native, command.code, serialize_type)
    native.version, native.opaque, native.flag, native.language = command.version, command.opaque, command.flag, command.language
    native.remark = piece(None if command.remark is None else command.remark.encode())
    native.body = piece(command.body or None)
    for key, value in command.fields.items():
        key_slice, value_slice = ffi.new("rp_slice *", piece(key.encode())), ffi.new("rp_slice *", piece(value.encode()))
        assert lib.rp_command_add_field(native, key_slice[0], value_slice[0]) == 0
    room = lib.rp_command_size_max(native)
    assert room > 0
    target = ffi.new("uint8_t[]", room)
    size = lib.rp_command_encode(native, target, room)
    assert 0 < size <= room
    assert lib.rp_command_encode(native, target, size) == size
    assert lib.rp_command_encode(native, target, size - 1) == lib.RP_E_TOO_LARGE
    return bytes(ffi.buffer(target, size))


def decode(frame: bytes, forms: Any = ffi.NULL) -> Command | int:
    """The command, or the status and a checked error. forms: what earlier headers have taught."""
    arena = lib.rp_arena_create(1 << 16, 1 << 20)
    try:
        # Exactly as long as the frame, so that AddressSanitizer sees any step beyond.
        data = ffi.new("uint8_t[]", frame) if frame else ffi.new("uint8_t[]", 1)
        native, error = ffi.new("rp_command *"), ffi.new("rp_error *")
        status = lib.rp_command_decode_formed(forms, data, len(frame), arena, native, error)
        if status != 0:
            assert error.status == status and text(error.message) and 0 <= error.offset <= len(frame)
            return int(status)
        found = [(native.fields[index].key, native.fields[index].value) for index in range(native.field_count)]
        pairs = {(bytes_of(key) or b"").decode(errors="replace"): (bytes_of(value) or b"").decode(errors="replace") for key, value in found}
        remark = bytes_of(native.remark)
        return Command(
            native.code,
            native.version,
            native.opaque,
            native.flag,
            native.language,
            None if remark is None else remark.decode(errors="replace"),
            pairs,
            bytes_of(native.body) or b"",
        )
    finally:
        lib.rp_arena_destroy(arena)


def frame_of(header: bytes, serialize_type: int = JSON, body: bytes = b"") -> bytes:
    return struct.pack(">II", 4 + len(header) + len(body), serialize_type << 24 | len(header)) + header + body


@given(commands)
def test_json_headers_decode_to_what_was_encoded(command: Command) -> None:
    frame = encode(command, JSON)
    assert decode(frame) == command
    header = json.loads(frame[8 : 8 + int.from_bytes(frame[5:8], "big")])
    assert header["code"] == command.code and header["language"] == LANGUAGES[command.language]
    assert header.get("remark") == command.remark and header.get("extFields", {}) == command.fields


@given(commands)
def test_binary_headers_decode_to_what_was_encoded_but_for_empty_texts(command: Command) -> None:
    kept = {key: value for key, value in command.fields.items() if key and value}
    assert decode(encode(command, ROCKETMQ)) == command._replace(remark=command.remark or None, fields=kept)


@given(commands, st.booleans(), st.sampled_from([None, 1, "\t"]), st.randoms(use_true_random=False))
def test_headers_of_any_json_writer_are_read(command: Command, ascii_only: bool, indent: int | str | None, random: Any) -> None:
    members: list[tuple[str, object]] = [
        ("code", command.code),
        ("version", command.version),
        ("opaque", command.opaque),
        ("flag", command.flag),
        ("language", LANGUAGES[command.language]),
        ("remark", command.remark),
        ("extFields", command.fields or None),
        ("serializeTypeCurrentRPC", "JSON"),
        ("unknown", {"nested": [1, None, {"deep": "]}"}]}),
    ]
    random.shuffle(members)
    header = json.dumps(dict(members), ensure_ascii=ascii_only, indent=indent).encode()
    assert decode(frame_of(header, body=command.body)) == command


@given(st.dictionaries(texts, st.integers() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False), max_size=10))
def test_scalars_of_ext_fields_are_taken_as_their_text(values: dict[str, Any]) -> None:
    command = decode(frame_of(json.dumps({"code": 1, "extFields": values}).encode()))
    assert isinstance(command, Command)
    assert command.fields == {key: json.dumps(value) for key, value in values.items()}


@given(st.integers(0, 2), st.binary(max_size=300))
def test_random_headers_are_refused_or_read(serialize_type: int, header: bytes) -> None:
    assert isinstance(decode(frame_of(header, serialize_type)), Command | int)


@given(commands, st.sampled_from([JSON, ROCKETMQ]), st.data())
def test_bent_frames_are_refused_or_read(command: Command, serialize_type: int, data: st.DataObject) -> None:
    frame = bytearray(encode(command, serialize_type))
    for _ in range(data.draw(st.integers(1, 4))):
        frame[data.draw(st.integers(4, len(frame) - 1))] = data.draw(st.integers(0, 255))
    assert isinstance(decode(bytes(frame)), Command | int)


@given(commands, st.sampled_from([JSON, ROCKETMQ]), st.data())
def test_a_frame_is_found_whole_or_not_at_all(command: Command, serialize_type: int, data: st.DataObject) -> None:
    frame = encode(command, serialize_type)
    have = data.draw(st.integers(0, len(frame) - 1))
    size = ffi.new("uint32_t *")
    assert lib.rp_frame_scan(frame[:have], have, 1 << 24, size) == 0
    assert size[0] == (len(frame) if have >= 4 else 0)
    assert lib.rp_frame_scan(frame + b"next", len(frame) + 4, 1 << 24, size) == 1 and size[0] == len(frame)
    assert lib.rp_frame_scan(frame, len(frame), len(frame) - 1, size) == lib.RP_E_TOO_LARGE


@given(st.integers(-(2**70), 2**70) | st.integers(-(2**63), 2**63 - 1))
def test_numbers_are_parsed_exactly_or_refused(number: int) -> None:
    digits = ffi.new("uint8_t[]", str(number).encode())
    piece = ffi.new("rp_slice *", (digits, len(str(number))))
    wide, narrow = ffi.new("int64_t *"), ffi.new("int32_t *")
    if -(2**63) <= number < 2**63:
        assert lib.rp_slice_to_i64(piece[0], wide) == 0 and wide[0] == number
    else:
        assert lib.rp_slice_to_i64(piece[0], wide) == lib.RP_E_PROTOCOL
    fits = -(2**31) <= number < 2**31
    assert (lib.rp_slice_to_i32(piece[0], narrow) == 0) == fits and (not fits or narrow[0] == number)


# As producers write them: the same fields in the same order, with values of a few lengths, so that forms are found again.
sent_texts = st.sampled_from(
    ["", "a", "b", "7", "10", "TopicA", "TopicB", "UNIQ_KEY\x01A1\x02", "UNIQ_KEY\x01B2\x02", 'say "no"', "c:\\dir", "ü"]
)
sent_commands = st.builds(
    Command,
    st.sampled_from([10, 310]),
    st.just(443),
    st.integers(0, 120) | st.integers(2**31 - 40, 2**31 - 1),
    st.just(0),
    st.just(0),
    st.none(),
    st.fixed_dictionaries({"topic of the message": sent_texts, "b": sent_texts, "properties of the message": sent_texts}),
    st.binary(max_size=4),
)


@given(st.lists(sent_commands, min_size=2, max_size=12), st.randoms(use_true_random=False))
def test_headers_of_a_known_form_are_read_as_the_general_way_reads_them(sent: list[Command], random: Any) -> None:
    forms = ffi.gc(lib.rp_header_forms_create(), lib.rp_header_forms_destroy)
    for command in sent:
        frame = bytearray(encode(command, JSON))
        assert decode(bytes(frame), forms) == command
        at = random.randrange(8, len(frame))
        frame[at] = random.choice(b'"\\0a{}[]:,u ')
        assert decode(bytes(frame), forms) == decode(bytes(frame))


def test_an_opaque_of_another_object_is_not_taken_for_the_commands() -> None:
    forms = ffi.gc(lib.rp_header_forms_create(), lib.rp_header_forms_destroy)
    for digit in range(10):
        header = b'{"code":310,"other":{"opaque":%d},"language":"JAVA","version":443,"flag":0}' % digit
        assert decode(frame_of(header), forms) == decode(frame_of(header))


def test_a_quote_does_not_pass_for_the_backslash_that_stood_there() -> None:
    forms = ffi.gc(lib.rp_header_forms_create(), lib.rp_header_forms_destroy)
    header = rb'{"code":310,"opaque":1,"flag":0,"language":"JAVA","version":443,"extFields":{"i":"a\u0001b"}}'
    broken = header.replace(b"\\", b'"')
    for frame in (frame_of(header), frame_of(header), frame_of(broken)):
        assert decode(frame, forms) == decode(frame)


def test_a_form_in_use_keeps_its_place_when_another_header_of_its_size_comes_by() -> None:
    forms = ffi.gc(lib.rp_header_forms_create(), lib.rp_header_forms_destroy)
    arena = ffi.gc(lib.rp_arena_create(1 << 16, 1 << 20), lib.rp_arena_destroy)
    usual, other = (b'{"code":%d,"opaque":1,"flag":0,"language":"JAVA","version":443,"extFields":{"b":"t"}}' % code for code in (310, 311))

    def is_known(header: bytes) -> bool:
        command = ffi.new("rp_command *")
        return bool(lib.rp_header_forms_read(forms, header, len(header), arena, command))

    decode(frame_of(usual), forms)
    for _ in range(20):
        assert is_known(usual)
        decode(frame_of(other), forms)
    for _ in range(8):
        decode(frame_of(other), forms)
    assert is_known(other), "what is not used any more makes way"

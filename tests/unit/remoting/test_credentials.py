"""The signature of a request, as RocketMQ's clients make it."""

from __future__ import annotations

from rocketpy.remoting.credentials import Credentials, signature


def test_values_are_signed_in_the_order_of_their_names_and_the_body_behind_them() -> None:
    fields = {"b": "2", "AccessKey": "rocketmq", "a": "1"}
    assert signature("12345678", fields, b"hello") == signature("12345678", {"x": "rocketmq12"}, b"hello")
    assert signature("key", {}, b"The quick brown fox jumps over the lazy dog") == "3nybhbi3iqa8ino29wqQcBydtNk="


def test_a_signed_request_says_whom_it_is_from() -> None:
    fields = Credentials("alice", "secret", "token").signed({"topic": "t", "Signature": "of somebody else"}, b"")
    assert fields == {
        "topic": "t",
        "AccessKey": "alice",
        "SecurityToken": "token",
        "Signature": signature("secret", {"AccessKey": "alice", "SecurityToken": "token", "topic": "t"}, b""),
    }


def test_no_text_of_them_shows_the_secret() -> None:
    assert "secret" not in repr(Credentials("alice", "secret", "secret-token"))

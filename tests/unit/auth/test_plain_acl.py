"""Accounts of 4.x become users and rights; what cannot be read whole is not read in part."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.auth.plain_acl import plain_acl_files, read_plain_acl, user_and_acl

SHIPPED = """\
# Licensed to somebody
globalWhiteRemoteAddresses:
  - 10.10.103.*
  - 192.168.0.*

accounts:
  - accessKey: RocketMQ
    secretKey: 12345678
    whiteRemoteAddress:
    admin: false
    defaultTopicPerm: DENY   # of all others
    defaultGroupPerm: SUB
    topicPerms:
      - topicA=DENY
      - topicB=PUB|SUB
      - "topicC=SUB"
    groupPerms:
    # the group should convert to retry topic
    - groupA=DENY
    - '%RETRY%groupB=PUB|SUB'

  - accessKey: rocketmq2
    secretKey: 'pass #word'
    whiteRemoteAddress: 192.168.1.*
    # if it is admin, it could access all resources
    admin: true
  -
    accessKey: third
    secretKey: x
    topicPerms: [a=PUB, "b=SUB"]
"""


def test_the_file_that_4x_ships_is_understood() -> None:
    found = read_plain_acl(SHIPPED.replace("  -\n    accessKey: third", "  - accessKey: third"))
    assert found.has_white_addresses
    (first, acl), (second, none), (third, small) = (user_and_acl(each) for each in found.accounts)
    assert (first.name, first.password, first.type) == ("RocketMQ", "12345678", "Normal")
    assert acl is not None
    assert [(entry.resource.key, entry.actions, entry.decision) for entry in acl.custom] == [
        ("Topic:topicA", ("All",), "Deny"),
        ("Topic:topicB", ("Pub", "Sub"), "Allow"),
        ("Topic:topicC", ("Sub",), "Allow"),
        ("Group:groupA", ("All",), "Deny"),
        ("Group:groupB", ("Pub", "Sub"), "Allow"),
    ]
    assert [(entry.resource.key, entry.actions, entry.decision) for entry in acl.default] == [
        ("Topic:*", ("All",), "Deny"),
        ("Group:*", ("Sub",), "Allow"),
    ]
    assert (second.name, second.password, second.type, none) == ("rocketmq2", "pass #word", "Super", None)
    assert third.name == "third" and small is not None
    assert [entry.resource.key for entry in small.custom] == ["Topic:a", "Topic:b"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (SHIPPED, 27),  # a dash alone
        ("accounts:\n  - accessKey: a\n    secretKey: &x b", 3),
        ("accounts:\n  - {accessKey: a, secretKey: b}", 2),
        ("accounts:\n  - accessKey: a\n    topicPerms: a=PUB", 3),
        ("accounts:\n  - accessKey: a\n    topicPerm:\n      - a=DENY", 3),
        ("accounts:\n  - accessKey: a\n    accessKey: b", 3),
        ("accounts:\n  - accessKey: a\n\tsecretKey: b", 3),
        ('accounts:\n  - accessKey: "a\\n"', 2),
        ("accounts:\n  - accessKey: a\n    secretKey: |\n      text", 3),
        ("accounts:\n  - accessKey: a\n    topicPerms: [a=PUB,\n      b=SUB]", 3),
        ("accounts:\n    secretKey: x", 2),
        ("accounts:\n  - accessKey: a\n    topicPerms:\n      - x=PUB\n  - y=SUB", 5),
        ("accounts:\n  - accessKey: a\n  secretKey: b", 3),
        ("whatever:\n  - a", 1),
        ("- accessKey: a", 1),
        ("just a text", 1),
    ],
)
def test_anything_else_names_its_line(text: str, line: int) -> None:
    with pytest.raises(ValueError, match=f"^line {line}: "):
        read_plain_acl(text)


@pytest.mark.parametrize(
    "account",
    [
        {"accessKey": "a"},
        {"accessKey": " ", "secretKey": "secret"},
        {"accessKey": "a", "secretKey": "secret", "admin": "perhaps"},
        {"accessKey": "a", "secretKey": "secret", "defaultTopicPerm": "pub"},
        {"accessKey": "a", "secretKey": "secret", "topicPerms": ["orders"]},
        {"accessKey": "a", "secretKey": "secret", "topicPerms": ["orders=FLY"]},
        {"accessKey": "a", "secretKey": "secret", "topicPerms": ["ord*=PUB"]},
        {"accessKey": "a", "secretKey": "secret", "groupPerms": ["=PUB"]},
    ],
)
def test_an_account_that_is_none_is_refused_without_its_secret(account: dict[str, str | list[str] | None]) -> None:
    with pytest.raises(ValueError) as fault:
        user_and_acl(account)
    assert "secret" not in str(fault.value).replace("secretKey", "")


@given(
    st.lists(
        st.sampled_from([*SHIPPED.split("\n"), "- ", "a: b", "  x: [", "'", "# c", "\t", "accounts:", "    topicPerms: []"]), max_size=12
    )
)
def test_no_text_is_a_crash(lines: list[str]) -> None:
    with contextlib.suppress(ValueError):
        for account in read_plain_acl("\n".join(lines)).accounts:
            user_and_acl(account)


def test_files_are_those_of_the_installation(tmp_path: Path) -> None:
    for name in ("conf/acl/b.yml", "conf/acl/deep/a.yaml", "conf/acl/no.txt", "conf/tools.yml", "conf/plain_acl.yml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    names = [str(path.relative_to(tmp_path / "conf")) for path in plain_acl_files(tmp_path)]
    assert names == ["acl/b.yml", "acl/deep/a.yaml", "plain_acl.yml"]
    assert plain_acl_files(tmp_path / "nowhere") == []

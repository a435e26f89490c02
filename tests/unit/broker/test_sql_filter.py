"""SQL92 expressions: what passes, what is refused and where. tests/interop/test_sql_filter.py asks RocketMQ the same."""

from __future__ import annotations

import pytest

from tests.unit.sql_filter import Refused, SqlFilter

ORDER = {"TAGS": "TagA", "region": "hangzhou", "price": "12", "weight": "0.5", "vip": "TRUE", "note": "it's new"}


@pytest.mark.parametrize(
    "expression",
    [
        "price = 12 AND region = 'hangzhou'",
        "price > 11 and price < 13 and price >= 12 and price <= 12",
        "price > 11.5",
        "weight = .5 and weight = 5e-1 and weight < 1.5",
        "price BETWEEN 12 AND 12.5",
        "price NOT BETWEEN 13 AND 20",
        "TAGS is not null and TAGS in ('TagA', 'TagB')",
        "TAGS NOT IN ('TagB')",
        "missing IS NULL",
        "vip = TRUE",
        "NOT (vip = FALSE)",
        "region STARTSWITH 'hang' AND region ENDSWITH 'zhou' AND region CONTAINS 'gz'",
        "region NOT CONTAINS 'x'",
        "note = 'it''s new'",
        "price = '12'",
        "missing = 1 OR price = 12",
        "price > 100 OR (weight > 0.25 AND NOT (region = 'x'))",
        "price >= weight",
        "price > -1",
        "price = +12",
        "price /* in yuan */ = 12",
        "price = 12 -- in yuan\n",
        "missing = another",
        "TRUE",
    ],
)
def test_the_order_passes(expression: str) -> None:
    sql = SqlFilter(expression)
    assert sql.refused is None
    assert sql.passes(ORDER)


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("price = 13", "another number"),
        ("missing = 1", "null"),
        ("NOT (missing = 1)", "NOT of null is null"),
        ("missing <> 1", "so is this"),
        ("missing > 1 OR missing < 1", "null or null"),
        ("price = 12 AND missing = 1", "true and null"),
        ("missing IN ('a')", "null"),
        ("missing NOT IN ('a')", "null"),
        ("missing NOT CONTAINS 'a'", "what is missing contains nothing, nor does it not"),
        ("price CONTAINS ''", "an empty text is found nowhere"),
        ("region > 1", "no number: the evaluation ends"),
        ("region > 1 OR price = 12", "and with it all of the expression"),
        ("price = 12.5 OR weight = 1", "0.5 is not a whole number"),
        ("region > note", "texts have no order"),
        ("TRUE = vip", "RocketMQ fails to compare them this way round"),
        ("price", "a property is a text, which is neither true nor false"),
        ("NULL", "null"),
        ("NOT price = 12", "(NOT price) = 12"),
        ("- price = 12", "a text cannot be negated"),
        ("price BETWEEN -1 AND -5", "an empty range"),
    ],
)
def test_the_order_does_not_pass(expression: str, why: str) -> None:
    sql = SqlFilter(expression)
    assert sql.refused is None
    assert not sql.passes(ORDER), why


@pytest.mark.parametrize(
    ("expression", "at"),
    [
        ("", 0),
        ("price", None),
        ("price =", 7),
        ("price = 12 AND", 14),
        ("(price = 12", 11),
        ("price in (12)", 10),
        ("price in ()", 10),
        ("price in ('a' 'b')", 14),
        ("12 in ('a')", 0),
        ("price = NULL", 8),
        ("price > 'a'", 8),
        ("price > TRUE", 8),
        ("price > 1 > 2", 0),
        ("price between 5 and 1", 14),
        ("price between 'a' and 'b'", 14),
        ("price between 5", 15),
        ("price not 5", 10),
        ("price is 5", 9),
        ("price contains 5", 15),
        ("price = 'open", 8),
        ("price = 12 # 3", 11),
        ("price = 12 /* open", 11),
        ("price = 12 -- open", None),
        ("price = 9223372036854775808", 8),
        ("price = 1e400", 8),
        ("price = 0.0", 8),
        ("TRUE = 'a'", 7),
        ("12", 0),
        ("12 AND TRUE", 0),
        ("-price", 0),
    ],
)
def test_what_is_no_expression_is_refused_at_its_place(expression: str, at: int | None) -> None:
    refused = SqlFilter(expression).refused
    assert (None if refused is None else refused.at) == at


def test_of_a_property_that_comes_twice_the_later_one_counts() -> None:
    assert SqlFilter("a = 2").passes({"b": "0", "a": "1"} | {"a": "2"})
    assert SqlFilter("A = 1").refused is None
    assert not SqlFilter("A = 1").passes({"a": "1"}), "names differ by case"


def test_what_follows_the_expression_is_not_looked_at_but_said() -> None:
    sql = SqlFilter("price = 12 price = 13")
    assert (sql.refused, sql.unread) == (None, "price = 13")
    assert sql.passes(ORDER)


@pytest.mark.parametrize(
    ("text", "reads_as"),
    [
        ("1.5", "1.5"), (" 1.5 ", "1.5"), ("+1.5", "1.5"), ("1.5d", "1.5"), ("1.5F", "1.5"), ("15e-1", "1.5"), ("0x1.8p0", "1.5"),
        ("0x1.8", None), ("1.5x", None), ("1,5", None), ("e5", None), (".", None), ("1e", None), ("nan", None), ("1.5 2", None),
    ],
)  # fmt: skip
def test_texts_are_real_numbers_as_java_reads_them(text: str, reads_as: str | None) -> None:
    assert SqlFilter("a = 1.5").passes({"a": text}) == (reads_as is not None)


def test_whole_numbers_have_no_more_than_their_bits() -> None:
    assert SqlFilter("a = 2147483647").passes({"a": "2147483647"})
    assert not SqlFilter("a < 5").passes({"a": "-2147483649"}), "no Integer: it is compared with one"
    assert SqlFilter("a < 5000000000").passes({"a": "-2147483649"}), "with a Long"
    assert not SqlFilter("a < 5").passes({"a": " 1"}), "whole numbers have no blanks around them"
    assert SqlFilter("a > -9223372036854775807").passes({"a": "-9223372036854775806"})


def test_infinity_and_what_is_no_number_have_their_order() -> None:
    assert SqlFilter("a > 1e300").passes({"a": "Infinity"})
    assert not SqlFilter("a > 1e300").passes({"a": "-Infinity"})
    assert SqlFilter("a > 1e300").passes({"a": "NaN"}), "above all others, as Double.compare has it"
    assert not SqlFilter("a = 1.5").passes({"a": "NaN"})


def test_a_long_list_is_searched_whatever_its_order() -> None:
    members = [f"{number * 7919 % 5003:04}" * (1 + number % 3) for number in range(900)]
    sql = SqlFilter("a IN ({})".format(", ".join(f"'{each}'" for each in members)))
    assert sql.refused is None
    assert all(sql.passes({"a": each}) for each in members)
    assert not any(sql.passes({"a": each}) for each in ("", "5003", "00000", "4999x"))


def test_bounds() -> None:
    deep = "(" * 99 + "a = 1" + ")" * 99
    assert SqlFilter(deep).passes({"a": "1"})
    assert SqlFilter(f"({deep})").refused == Refused(100, "the expression is nested too deeply")
    assert SqlFilter("NOT " * 99 + "TRUE").refused is None
    assert SqlFilter("NOT " * 101 + "TRUE").refused == Refused(400, "the expression is nested too deeply")
    many = " OR ".join(f"p{number} = 1" for number in range(128))
    assert SqlFilter(many).passes({"p127": "1"})
    assert SqlFilter(f"{many} OR p128 = 1").refused is not None
    wide = " OR ".join(["a = 1"] * 1800)
    assert SqlFilter(wide).passes({"a": "1"})
    assert not SqlFilter(wide).passes({"a": "2"})
    assert SqlFilter(" OR ".join(["a = 1"] * 2000)).refused == Refused(16384, "the expression is too large")

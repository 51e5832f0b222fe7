"""Units and numbers as ncu writes them."""

from __future__ import annotations

import pytest

from tracediff.companions.ncu.metrics import factor
from tracediff.companions.ncu.read import decimal_comma, number


@pytest.mark.parametrize(
    ("unit", "times"),
    [
        ("ns", 1), ("nsecond", 1), ("usecond", 1e3), ("us", 1e3), ("msecond", 1e6), ("second", 1e9), ("s", 1e9),
        ("byte", 1), ("Kbyte", 1e3), ("Mbyte", 1e6), ("Gbyte", 1e9), ("byte/block", 1), ("Kbyte/block", 1e3),
        ("Gbyte/second", 1e9), ("Tbyte/s", 1e12), ("byte/s", 1), ("hz", 1), ("Ghz", 1e9), ("cycle/nsecond", 1e9),
        ("cycle/usecond", 1e6), ("cycle/second", 1), ("sector/nsecond", 1e9), ("%", 1), ("", 1), ("inst", 1),
        ("inst/cycle", 1), ("register/thread", 1), ("warp", 1), ("block", 1), ("cycle", 1), ("sectors", 1),
    ],
)  # fmt: skip
def test_units(unit, times):
    assert factor(unit) == times


@pytest.mark.parametrize("unit", ["furlong", "Xbyte", "byte/parsec", "Mbyte/furlong", "%/%/%"])
def test_a_unit_that_is_not_known_has_no_factor(unit):
    assert factor(unit) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("12", 12), ("-3.5", -3.5), ("1,234", 1234), ("1,234,567.25", 1234567.25), ("4096.000000", 4096), ("1e3", 1000),
     ("", None), ("n/a", None), ("nan", None), ("inf", None), ("CachePreferNone", None), ("1,23", None), ("1.234,5", None), ("0x10", None)],
)  # fmt: skip
def test_numbers(text, value):
    assert number(text) == value


@pytest.mark.parametrize(
    ("text", "is_one"),
    [("1,5", True), ("12,34", True), ("1.234,567", True), ("1.234.567", True), ("0,123456", True),
     ("1,234", False), ("1.5", False), ("1,234.5", False), ("12", False), ("abc", False), ("(132, 1, 1)", False)],
)  # fmt: skip
def test_a_decimal_comma_is_told_from_thousands(text, is_one):
    assert decimal_comma(text) is is_one

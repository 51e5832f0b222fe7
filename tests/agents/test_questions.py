"""The questions that agents are measured by: their captures are there, and answers are counted right."""

from __future__ import annotations

import pytest

from benchmarks.agents.__main__ import captures, judge, questions, right


def test_every_question_has_captures_on_both_sides():
    found = questions()
    assert len({one["id"] for one in found}) == 10
    for one in found:
        for side in ("baseline", "candidate"):
            assert len(captures(one[side])) >= len(one[side]), one["id"]


@pytest.mark.parametrize(
    ("field", "given", "expected"),
    [
        ({"number": 96, "within": 15}, 111, True),
        ({"number": 96, "within": 15}, 112, False),
        ({"number": 96, "within": 15}, "96", False),
        ({"number": 96, "within": 15}, None, False),
        ({"has": ["_schedule"]}, "range _Schedule of the executor", True),
        ({"has": ["_schedule"]}, "_forward_step", False),
        ({"choices": ["yes", "no"], "right": ["no"]}, "no", True),
        ({"choices": ["yes", "no"], "right": ["no"]}, "yes", False),
    ],
)
def test_a_field_is_judged_without_a_model(field, given, expected):
    assert right(field, given) is expected


def test_an_answer_is_right_where_all_its_fields_are():
    wrong = judge({"q01": {"range": "_schedule", "us": 90}, "q06": {"a": 149, "b": 2}})
    assert wrong["q01"] == []
    assert wrong["q06"] == ["b"]
    assert wrong["q02"] == ["change"]

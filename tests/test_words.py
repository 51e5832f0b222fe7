"""The words of real pairs whose truth is known: the first screen, and causes in order.

`TRACEDIFF_UPDATE_GOLDEN=1 pytest tests/test_words.py` writes tests/words.md anew; read every line of the difference beside the truth.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.test_scoreboard import PAIRS, result_of
from tracediff.model import Result
from tracediff.report import first, units, words
from tracediff.report.phrases import with_words

PAGE = Path(__file__).parent / "words.md"
CAUSES = 4
UPDATE = bool(os.environ.get("TRACEDIFF_UPDATE_GOLDEN"))


def truth(pair: dict) -> str:
    """What was planted, as pairs.toml has it."""
    if "cause" not in pair:
        return "nothing that changes a step"
    size = f" {pair['expected_ns'] / 1e3:+.1f} us" if "expected_ns" in pair else ""
    return f"{words.cause(pair['cause'])}{size}"


def said(result: Result) -> str:
    real = [one for one in result.findings if one.level != "within_noise"]
    lines = first.lines(result)
    for one in real[:CAUSES]:
        scale = units.scale_for([one.delta_ns])
        parts = words.parts_line(one, scale)
        lines.append(
            f"- {words.sentence(one.title)}: {words.size(one, scale)}, {words.LEVELS[one.level][0]}"
            + (f"; of it {parts}" if parts else "")
        )
    if more := len(real) - CAUSES:
        lines += [f"- {more} more"] * (more > 0)
    noise = len(result.findings) - len(real)
    return "\n".join([*lines, f"- {units.counted(noise, 'cause')} that may be noise"])


def sections() -> dict[str, str]:
    found: dict[str, str] = {}
    for section in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        name, _, text = section.partition("\n\n")
        found[name] = text.strip()
    return found


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair["name"])
def test_what_is_said_of_a_pair(pair):
    text = f"Truth: {truth(pair)}.\n\n{said(with_words(result_of(pair['name'])))}"
    if UPDATE:
        pages = sections() if PAGE.exists() else {}
        pages[pair["name"]] = text
        order = [one["name"] for one in PAIRS if one["name"] in pages]
        head = "# What is said of the pairs in fixtures/pairs"
        PAGE.write_text(
            "\n\n".join([head, *(f"## {name}\n\n{pages[name]}" for name in order)]) + "\n", encoding="utf-8"
        )
    assert sections()[pair["name"]] == text


def test_every_pair_has_its_words():
    assert set(sections()) == {pair["name"] for pair in PAIRS} and len(PAIRS) >= 20

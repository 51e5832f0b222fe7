"""One comment on several results: what it says first, its order, and that a forge takes it."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from tests.report import sample
from tests.report.test_markdown import MARKDOWN, NASTY
from tracediff.model import GateOutcome, Gates, Result
from tracediff.report.markdown import MARKER, MOST, length, render_many, render_markdown

FULL = sample.full()


def result(verdict: str, text: str, percent: float = 0.0, *gates: str) -> Result:
    outcomes = [
        GateOutcome(text="step:+3%", metric="step", severity="error", outcome=outcome, message="why")
        for outcome in gates
    ]
    return replace(
        FULL, verdict=verdict, headline=replace(FULL.headline, text=text), gates=Gates(outcomes) if outcomes else None,
        step=replace(FULL.step, baseline_ns=100.0, delta_ns=percent),
    )  # fmt: skip


def lines(text: str) -> list[str]:
    return text.split("\n\n<details>")[0].splitlines()


def test_a_sentence_each_and_the_worst_first() -> None:
    text = render_many({
        "same": result("no_change", "No change.", 0.1),
        "slow": result("regressed", "Slower by 2 %.", 2.0),
        "gated": result("no_change", "No change at all.", 0.0, "passed", "failed"),
        "slower": result("regressed", "Slower by 9 %.", 9.0),
        "noisy": result("inconclusive", "Noise.", 1.0, "inconclusive"),
    })  # fmt: skip
    assert lines(text) == [
        "5 benchmarks: 2 slower, 1 unclear, 2 same; gates: 1 failed, 1 inconclusive, 1 passed.",
        "",
        "- = **`gated`**: No change at all. Gates: failed `step:+3%`, 1 passed.",
        "- ? **`noisy`**: Noise. Gates: inconclusive `step:+3%`.",
        "- ▲ **`slower`**: Slower by 9 %.",
        "- ▲ **`slow`**: Slower by 2 %.",
        "- = **`same`**: No change.",
    ]
    assert text.endswith(f"\n\n{MARKER}\n")


def test_each_comment_is_folded_whole_where_there_is_room() -> None:
    text = render_many({"a": FULL, "b": sample.minimal()}, key="h200", link="https://ci.example/1")
    for name, one in (("a", FULL), ("b", sample.minimal())):
        own = render_markdown(one).removesuffix(f"\n\n{MARKER}\n")
        assert f"<summary><code>{name}</code></summary>\n\n{own}\n\n</details>" in text
    assert "[HTML reports](https://ci.example/1)" in text
    assert text.endswith("\n\n<!-- tracediff:h200 -->\n")


@pytest.mark.parametrize("many", [2, 7, 20, 400])
def test_a_forge_takes_it(many: int) -> None:
    text = render_many({f"benchmark {number}": FULL for number in range(many)}, top=1000)
    assert 5_000 < length(text) <= MOST
    assert text.count("<details>") == text.count("</details>")
    assert ("more, none of them worse" in text) == (many == 400)
    assert ("Truncated: " in text.split("</details>")[-1]) == (many == 400)
    assert text.endswith(f"\n\n{MARKER}\n")


def test_names_are_harmless() -> None:
    html = [
        token.content
        for token in MARKDOWN.parse(render_many(dict.fromkeys(NASTY, FULL)))
        if token.type == "html_block"
    ]
    names = [one for one in html if one.startswith("<details><summary><code>")]
    assert len(names) > 20
    allowed = re.compile(r"(</?(details|summary|code)>|<!-- tracediff -->|[^<>])*")
    assert [one for one in html if not allowed.fullmatch(one)] == []
    assert sum(one.count("<details>") - one.count("</details>") for one in html) == 0

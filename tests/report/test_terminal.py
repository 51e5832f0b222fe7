from __future__ import annotations

import io
import re
from pathlib import Path

import msgspec
import pytest
from rich.cells import cell_len
from rich.console import Console

from tests.report import sample
from tests.report.golden import check
from tracediff.model import Result
from tracediff.report import kernels, waterfall
from tracediff.report.markdown import render_markdown
from tracediff.report.terminal import render_terminal

RESULTS = {
    "full": sample.full(),
    "minimal": sample.minimal(),
    "one_sided": sample.one_sided(),
    "large": sample.large(50),
}


def render(result: Result, width: int = 80, colour: bool = False, encoding: str = "utf-8") -> str:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding, newline="\n")
    console = Console(
        file=file,
        width=width,
        force_terminal=colour,
        color_system="truecolor" if colour else None,
        no_color=not colour,
    )
    render_terminal(result, console)
    file.flush()
    return raw.getvalue().decode(encoding)


def waterfall_of(result: Result) -> str:
    return waterfall.text_figure(waterfall.build(result))


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS)
def test_no_line_is_wider_than_the_terminal(result: Result, width: int) -> None:
    assert max(cell_len(line) for line in render(result, width).splitlines()) <= width


@pytest.mark.parametrize("colour", [False, True])
def test_no_control_sequence_of_a_name_gets_through(colour: bool) -> None:
    text = render(sample.full(), colour=colour)
    assert "\x1b[31mred" not in text
    assert "\\x1b[31mred" in text
    if not colour:
        assert "\x1b" not in text


def test_markup_in_names_is_text() -> None:
    assert sample.MARKUP in render(sample.full(), 200)
    assert sample.LINK in render(sample.full(), 200)


def test_the_verdict_is_a_word_and_the_numbers_are_the_results() -> None:
    text = render(sample.full())
    first, second, *_ = text.splitlines()
    assert f"{first} {second}" == (f"▲ {sample.WHAT}")
    (row,) = [line for line in text.splitlines() if line.startswith("  generation, typical")]
    assert row.split() == [
        "generation,",
        "typical",
        "Slower",
        "1,035",
        "->",
        "1,140",
        "+106",
        "+10.2",
        "%",
        "+87.8",
        "to",
        "+124",
    ]
    assert "5 + 5 runs" in text and "1,038.6 us" in text and "1,167.9 us" in text
    for figure in ("+97.2 us", "+23.5 us", "-7.2 us"):
        assert figure in text


def test_what_was_not_captured_is_said_with_the_flag() -> None:
    text = render(sample.minimal(), 200)
    assert "GIL: not captured on either side. Capture with -t python-gil" in text
    assert "TLLM_PROFILE_RECORD_GC=1" in text


def test_steps_that_may_hold_other_work_are_neither_good_nor_bad() -> None:
    """Red where a step is slower; yellow where the kernels of both sides have other numbers of blocks."""
    whole = sample.full()
    blocks = msgspec.structs.replace(
        whole.structure[0], kind="workload", phase=whole.observed.phase, baseline=8, candidate=16
    )
    other = msgspec.structs.replace(whole, structure=[blocks])
    for result, colour in ((whole, 31), (other, 33)):
        assert render(result, 200, colour=True).splitlines()[0].startswith(f"\x1b[1;{colour}m▲ Slower")


def test_a_terminal_without_unicode() -> None:
    plain = sample.minimal()
    text = render(plain, encoding="ascii")
    assert "####" in text
    assert "Unclear" in text


def test_more_findings_on_request() -> None:
    raw = io.StringIO()
    render_terminal(sample.full(), Console(file=raw, width=80), top=3)
    assert "2 more: in the HTML report" in raw.getvalue()


def test_a_narrow_terminal_says_how_sure_kernels_are() -> None:
    """The last columns fall away: what a kernel is matched by, and its part of the kernel time."""
    narrow, wide = (
        next(line for line in render(sample.full(), width).splitlines() if "count per step" in line)
        for width in (80, 200)
    )
    assert narrow.split()[-1] == "Evidence"
    assert wide.split()[-8:] == ["Evidence", "of", "kernel", "time", "Match,", "0", "to", "1"]


def test_golden() -> None:
    check(Path("terminal.txt"), render(sample.full()))


def test_rows_that_were_not_tested_are_not_said_to_be_unchanged() -> None:
    whole = sample.full()
    still = [msgspec.structs.replace(row, level="within_noise", q_value=0.5) for row in whole.kernels]

    def said(untested: int) -> str:
        rows = [
            msgspec.structs.replace(row, q_value=None) if at < untested else row
            for at, row in enumerate(still)
        ]
        return kernels.none_changed(rows)

    assert len(still) == 8
    # the farther ends of the intervals are 2.2, 1.4, 2.7, 1.0, 5.2, 6.0, 1.3 and 3.7 us, of 212, 319, 60.1, 96.9, 4.3, 5.1, 28 and 44 us
    assert (
        said(0) == "5 kernel rows changed by less than 5 % each; too much scatter to tell, or not tested: 3."
    )
    assert (
        said(1) == "4 kernel rows changed by less than 5 % each; too much scatter to tell, or not tested: 4."
    )
    assert (
        said(5) == "1 kernel row changed by less than 5 % each; too much scatter to tell, or not tested: 7."
    )
    assert said(8) == "Too much scatter to tell, or not tested: 8 kernel rows."
    only = [still[1], still[3]]
    assert kernels.none_changed(only) == ("2 kernel rows changed by less than 5 % each.")
    same = [msgspec.structs.replace(row, delta_ns=0.0) for row in only]
    assert kernels.none_changed(same) == "Identical on both sides: 2 kernel rows."


def test_kernels_within_noise_are_counted_and_untested_ones_are_listed() -> None:
    whole = msgspec.structs.replace(sample.full(), kpi=None)  # a figure of it is within noise too
    calm = [msgspec.structs.replace(row, level="within_noise") for row in whole.kernels]
    text = render(msgspec.structs.replace(whole, kernels=calm))
    assert (
        "5 kernel rows changed by less than 5 % each; too much scatter to tell, or not tested: 3."
        in " ".join(text.split())
    )
    assert "Kernels that differ most" not in text
    unjudged = [msgspec.structs.replace(phase, judged=False) for phase in whole.phases]
    # 10.2 us of the largest are 1.3 % of 762 us of GPU time, 0.0102 us would be nothing
    untested = [msgspec.structs.replace(row, q_value=None, delta_ns=2 * row.delta_ns) for row in calm]
    text = render(msgspec.structs.replace(whole, kernels=untested, phases=unjudged))
    assert "Kernels that differ most, in the mean step; the steps are too few to test them" in text
    text = render(msgspec.structs.replace(whole, kernels=untested))
    assert "not tested, as they depend on the shapes of the steps" in " ".join(text.split())
    assert "changed by less than" not in text and "within noise" not in text.partition("Kernels that")[2]
    small = [msgspec.structs.replace(row, delta_ns=row.delta_ns / 1e3) for row in untested]
    text = render(msgspec.structs.replace(whole, kernels=small))
    assert "Too much scatter to tell, or not tested: 8 kernel rows." in text and "Kernels that" not in text
    assert "Kernels that changed most" in render(
        msgspec.structs.replace(whole, kernels=[*calm, whole.kernels[0]])
    )
    assert whole.kernels[0].level != "within_noise" and len(whole.kernels) == 8


def test_kernels_of_one_side_alone_are_not_said_to_have_changed() -> None:
    whole = sample.full()
    lost = msgspec.structs.replace(
        whole.coverage, candidate={**whole.coverage.candidate, "kernels": "not_captured"}
    )
    text = render(msgspec.structs.replace(whole, coverage=lost))
    assert "Kernels that were recorded on the baseline only" in text and "changed most" not in text


@pytest.mark.parametrize("write", [render, render_markdown, waterfall_of], ids=lambda one: one.__name__)
def test_parts_of_the_step_and_changes_of_a_row_have_headers_of_their_own(write) -> None:
    """+97.2 us of host work are 9.4 % of a step of 1,038.6 us; of host work itself (55.7 us) they would be 175 %."""
    text = write(sample.full())
    lines = text[max(0, text.index("baseline       1,038.6 us") - 60) :].splitlines()
    (row,) = [line for line in lines if "host work" in line and "+97.2" in line and "9.4 %" in line]
    head = next(line for line in lines if line.strip().endswith("of step"))
    assert head.index("of step") + len("of step") == row.index("9.4 %") + len("9.4 %")


def test_no_column_of_percentages_goes_without_a_name() -> None:
    page = sample.page()
    assert ">%</th>" not in page and '<th scope="col" class="n"></th>' not in page
    assert ">of step</text>" in page and "Of step&#39;s change</th>" in page.replace(
        "Of step's", "Of step&#39;s"
    )
    comment = render_markdown(sample.full())
    tables = re.findall(r"^\|(.*)\|\n\|[-:|]+\|\n(.*)$", comment, re.MULTILINE)
    named = [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", head)]
        for head, row in tables
        if re.search(r"\| [+-]?[\d.]+ %|\\~ \|", row)
    ]
    assert named and all("" not in head for head in named)


@pytest.mark.parametrize("width", [60, 200])
def test_the_figures_of_a_benchmark_and_their_note(width: int) -> None:
    text = render(sample.full(), width=width)
    part = " ".join(text[text.index("Benchmark figures") :].split())
    assert "ITL mean, ms 1.04 -> 1.17 +0.13 12.5 % worse" in part
    assert "output throughput, tok/s 15,420 -> 13,720 -1,700 11.0 % worse" in part
    assert "The step time explains 93 % of the change of ITL." in part
    assert "The benchmark ran unprofiled." in part


def test_benchmarks_with_nothing_in_common_are_not_passed_over() -> None:
    result = sample.full()
    assert result.kpi
    kpi = msgspec.structs.replace(result.kpi, rows=[], note="The sides come from different tools.")
    assert "different tools" in render(msgspec.structs.replace(result, kpi=kpi))
    assert "different tools" in render_markdown(msgspec.structs.replace(result, kpi=kpi))


def test_a_cause_has_its_level_its_runs_its_parts_and_what_it_does_elsewhere() -> None:
    """The finding's -1.6 us are -4.4, +3.1 and, following from those, -0.3 us."""
    raw = io.StringIO()
    render_terminal(sample.full(), Console(file=raw, width=200), top=10)
    text = raw.getvalue()
    assert "+95.1 ± 7.6 us per generation step; confirmed; in 5 of 5 runs; 90 % of the change" in text
    assert "elsewhere: +88.0 us per context step (likely)" in text
    assert (
        "of it: `x` and @everyone -4.4 us, [red]not red[/red] +3.1 us; as a result: launch latency -0.3 us"
        in text
    )
    assert "2 small causes, which may be noise: in the HTML report and the JSON" in text


@pytest.mark.parametrize(("half", "said"), [(3_000.0, "not sure"), (30_000.0, "may be noise")])
def test_a_doubt_agrees_with_its_interval(half: float, said: str) -> None:
    """+20 ± 3 us leaves out 0, but is one of many places; +20 ± 30 us holds it. 20 us are 1.9 % of the step."""
    whole = sample.full()
    (one, *_) = [one for one in whole.findings if one.level == "within_noise"]
    one = msgspec.structs.replace(
        one, delta_ns=20_000.0, ci_low_ns=20_000.0 - half, ci_high_ns=20_000.0 + half
    )
    raw = io.StringIO()
    render_terminal(msgspec.structs.replace(whole, findings=[one]), Console(file=raw, width=200), top=10)
    assert f" us per generation step; {said}; " in raw.getvalue()


def test_a_phase_that_is_not_judged_says_why_and_no_row_says_another_again() -> None:
    whole = sample.full()
    generation = whole.phases[1]
    mixed = msgspec.structs.replace(
        generation, phase="mixed", verdict="inconclusive", judged=False, share=0.1
    )
    lines = render(msgspec.structs.replace(whole, phases=[generation, mixed]), 100).splitlines()
    rows = [" ".join(line.split()) for line in lines if line.startswith(("  generation, ", "  mixed, "))]
    assert rows == [
        "generation, typical Slower 1,035 -> 1,140 +106 +10.2 % +87.8 to +124",
        "generation, mean 1,039 -> 1,168 +129 +12.4 % +111 to +150",
        "mixed, typical too few similar steps 1,035 -> 1,140 +106 +10.2 %",
        "mixed, mean 1,039 -> 1,168 +129 +12.4 % +111 to +150",
    ]


def test_signs_of_sentences_are_ascii_where_the_terminal_has_no_more() -> None:
    text = render(sample.full(), encoding="ascii")
    assert "+95.1 +/- 7.6 us" in text

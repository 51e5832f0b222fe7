from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

import tracediff.model as m
from tests.report import sample
from tracediff.model import CATEGORIES, Result
from tracediff.report import palette, units, waterfall

RESULTS = {"full": sample.full(), "minimal": sample.minimal(), "one_sided": sample.one_sided()}


@pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS)
def test_it_closes_to_the_nanosecond(result: Result) -> None:
    bars = waterfall.build(result).bars
    baseline, *changes, candidate = bars
    assert baseline.delta_ns == round(result.step.baseline_ns)
    assert candidate.delta_ns == round(result.step.candidate_ns)
    assert baseline.delta_ns + sum(bar.delta_ns for bar in changes) == candidate.delta_ns
    for above, below in zip(bars[:-1], changes, strict=False):
        assert below.start_ns == above.end_ns
    assert not [bar for bar in bars if bar.kind == "residual"]


def test_rows_are_the_accounting_in_its_order() -> None:
    result = sample.full()
    changes = waterfall.build(result).bars[1:-1]
    assert [bar.key for bar in changes] == [key for key in CATEGORIES if key in result.accounting.delta]
    for bar in changes:
        assert abs(bar.delta_ns - result.accounting.delta[bar.key]) <= 1


def test_fractions_of_a_nanosecond_add_up_too() -> None:
    result = sample.full()
    base = {key: value + 0.4999 for key, value in sample.BASELINE.items()}
    cand = {
        key: value + 0.5001 * (number % 3) for number, (key, value) in enumerate(sample.CANDIDATE.items())
    }
    step = msgspec.structs.replace(
        result.step, baseline_ns=math.fsum(base.values()), candidate_ns=math.fsum(cand.values())
    )
    accounting = msgspec.structs.replace(
        result.accounting, baseline=base, candidate=cand, delta={key: cand[key] - base[key] for key in base}
    )
    bars = waterfall.build(msgspec.structs.replace(result, step=step, accounting=accounting)).bars
    assert (
        bars[0].delta_ns + sum(bar.delta_ns for bar in bars[1:-1])
        == bars[-1].delta_ns
        == round(step.candidate_ns)
    )


def test_what_the_categories_do_not_explain_is_a_row() -> None:
    result = sample.full()
    step = msgspec.structs.replace(result.step, candidate_ns=result.step.candidate_ns + 500)
    bars = waterfall.build(msgspec.structs.replace(result, step=step)).bars
    assert (bars[-2].kind, bars[-2].delta_ns, bars[-2].label) == ("residual", 500, "not accounted for")


def test_a_category_of_one_side_only_is_not_compared() -> None:
    bars = {bar.key: bar for bar in waterfall.build(sample.one_sided()).bars}
    assert not bars["gil_wait"].captured
    assert bars["gil_wait"].delta_ns == 0
    assert "baseline only" in bars["gil_wait"].note
    assert bars["host_work"].delta_ns == 106_000
    assert "GIL wait" in bars["host_work"].note


def test_what_one_side_did_not_record_is_not_unchanged() -> None:
    """No collection on either side: "no change" of it where both could record one only."""
    result = sample.full()
    books = result.accounting
    sides = ({**part, "gc": 0.0} for part in (books.baseline, books.candidate, books.delta))
    books = msgspec.structs.replace(
        books, **dict(zip(("baseline", "candidate", "delta"), sides, strict=True))
    )
    result = msgspec.structs.replace(result, accounting=books, phases=[])
    assert "gc" in [bar.key for bar in waterfall.build(result).unchanged]
    coverage = msgspec.structs.replace(
        result.coverage, candidate={**result.coverage.candidate, "gc": "not_captured"}
    )
    result = msgspec.structs.replace(result, coverage=coverage)
    figure = waterfall.build(result)
    assert "gc" not in [bar.key for bar in figure.unchanged]
    assert "Python GC: none seen on the candidate." in waterfall.notes(figure)


def test_a_category_that_the_accounting_compares_keeps_its_delta() -> None:
    result = sample.full()
    baseline = {key: value for key, value in sample.BASELINE.items() if key != "gc"}
    baseline["host_work"] += sample.BASELINE["gc"]
    delta = {key: sample.CANDIDATE[key] - baseline.get(key, 0.0) for key in sample.CANDIDATE}
    accounting = msgspec.structs.replace(result.accounting, baseline=baseline, delta=delta)
    bars = {
        bar.key: bar for bar in waterfall.build(msgspec.structs.replace(result, accounting=accounting)).bars
    }
    assert (bars["gc"].captured, bars["gc"].delta_ns) == (True, 27_500)
    assert bars["gc"].note.startswith("none seen on the baseline")


def test_not_captured_is_said_and_has_no_size() -> None:
    figure = waterfall.build(sample.minimal())
    assert [(bar.key, bar.captured, bar.note) for bar in figure.shown[1:-1]] == [
        ("gc", False, "none seen"),
        ("gil_wait", False, "not captured"),
    ]
    assert waterfall.notes(figure)[1:] == ["Python GC: none seen.", "GIL wait: not captured."]


def test_the_text_figure_places_bars_end_to_end() -> None:
    table = waterfall.text_table(waterfall.build(sample.full()), 80)
    bars = [row.cells[-1].text for row in table.rows]
    ends = [len(bar) for bar in bars]
    starts = [len(bar) - len(bar.lstrip()) for bar in bars]
    assert (starts[0], starts[-1], max(ends)) == (0, 0, ends[-1])
    assert all(start <= end for start, end in zip(starts[1:-1], ends, strict=False))
    assert max(sum(len(cell.text) + 2 for cell in row.cells) for row in table.rows) <= 80
    assert "not at zero" not in waterfall.text_figure(waterfall.build(sample.full()))


@pytest.mark.parametrize("step", [1_000, 9_000])
def test_small_changes_within_noise_are_one_row_of_a_drawing(step: int) -> None:
    """Host work +100; of the rest launch latency (+6, more than a twentieth) has a row, and GC (-4, tested) where it is not 0.0 % of the step."""
    deltas = {"compute": 3, "launch_latency": 6, "host_sync": -2, "gc": -4, "host_work": 100, "gil_wait": 0}
    bars, at = [waterfall.Bar("baseline", "baseline", "baseline", 0, step)], step
    for key, delta in deltas.items():
        level = "likely" if key == "gc" else "within_noise"
        bars.append(waterfall.Bar("category", key, key, at, at + delta, level=level))
        at += delta
    bars += [
        waterfall.Bar("host_speed", "host_speed", "host speed", at, at + 7),
        waterfall.Bar("candidate", "candidate", "candidate", 0, at + 7),
    ]
    rows = waterfall.Waterfall(bars, units.scale_for([1000.0])).drawn
    gc, others = ([("gc", -4)], ("2 others", 1)) if step == 1_000 else ([], ("3 others", -3))
    assert [(bar.label, bar.delta_ns) for bar in rows] == [
        ("baseline", step), ("launch_latency", 6), *gc, ("host_work", 100), others, ("host speed", 7), ("candidate", step + 110),
    ]  # fmt: skip
    assert [bar.start_ns for bar in rows[1:-1]] == [bar.end_ns for bar in rows[:-2]]


def test_colours_are_distinct_in_both_themes() -> None:
    categories = palette.BY_KEY.values()
    assert len({c.light for c in categories}) == len({c.dark for c in categories}) == len(CATEGORIES)


def test_it_is_of_the_step_that_the_verdict_speaks_of() -> None:
    """Typical: 1,000 + 100 = 1,100 us; with rare steps 1,005 + 115 = 1,120 us."""
    whole = sample.full()
    us = 1_000.0

    def part(base: float, work: float) -> m.Accounting:
        after = {"compute": 400 * us, "host_work": (base - 400 + work) * us}
        before = {"compute": 400 * us, "host_work": (base - 400) * us}
        return m.Accounting(
            before, after, {"compute": 0.0, "host_work": work * us}, 0, level={"host_work": "likely"}
        )

    def size(base: float, change: float) -> m.Delta:
        return m.Delta(base * us, (base + change) * us, change * us, 0.0, 0.0)

    generation = whole.phases[1]
    assert generation.phase == "generation"
    phase = msgspec.structs.replace(
        generation, typical=size(1_000, 100), mean=size(1_005, 115), accounting=part(1_000, 100), mean_accounting=part(1_005, 115),
    )  # fmt: skip
    one = msgspec.structs.replace(whole, phases=[phase])
    figure = waterfall.build(one)
    assert figure.of_what == "typical generation step (mean of 2 ranks)"
    assert [(bar.key, bar.delta_ns / us) for bar in figure.shown if bar.captured] == [
        ("baseline", 1_000), ("host_work", 100), ("candidate", 1_100)
    ]  # fmt: skip
    of_mean = msgspec.structs.replace(whole.observed, of="mean")
    figure = waterfall.build(msgspec.structs.replace(one, observed=of_mean))
    assert figure.of_what == "mean generation step (mean of 2 ranks)"
    assert [(bar.key, bar.delta_ns / us, bar.level) for bar in figure.shown if bar.captured] == [
        ("baseline", 1_005, None), ("host_work", 115, "likely"), ("candidate", 1_120, None)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("part_ns", "cause", "row"),
    [
        (60_000.0, "likely", "likely"),
        (50_000.0, "likely", "within_noise"),
        (60_000.0, "within_noise", "within_noise"),
        (-60_000.0, "likely", "within_noise"),
    ],
)
def test_what_a_cause_beyond_noise_holds_is_not_called_noise(part_ns: float, cause: str, row: str) -> None:
    """Of +100 us of host work the first cause holds more than half, half, or as much the other way."""
    whole = sample.full()
    generation = whole.phases[1]
    books = m.Accounting(
        {"host_work": 1e6}, {"host_work": 1.1e6}, {"host_work": 1e5}, 0, level={"host_work": "within_noise"}
    )
    phase = msgspec.structs.replace(
        generation, typical=m.Delta(1e6, 1.1e6, 1e5, 0.0, 2e5), accounting=books
    )  # fmt: skip
    part = m.FindingPart("host_work", m.Where(), part_ns, 0.0, 1e5, "within_noise", follows=True)
    first = msgspec.structs.replace(whole.findings[0], level=cause, parts=[part])
    one = msgspec.structs.replace(whole, phases=[phase], findings=[first, *whole.findings[1:]])
    (bar,) = [bar for bar in waterfall.build(one).bars if bar.key == "host_work"]
    assert (bar.delta_ns, bar.level) == (100_000, row)


def notes_of_host_work(levels: dict[str, Any], **cause: Any) -> list[str]:
    """What is noted of a step with +100 us of host work, of these levels, and of one cause of it."""
    whole = sample.full()
    books = m.Accounting({"host_work": 1e6}, {"host_work": 1.1e6}, {"host_work": 1e5}, 0, level=levels)
    phase = msgspec.structs.replace(
        whole.phases[1], typical=m.Delta(1e6, 1.1e6, 1e5, 5e4, 1.5e5), accounting=books
    )
    found = [msgspec.structs.replace(whole.findings[0], cause="host_work", parts=[], **cause)]
    return waterfall.notes(waterfall.build(msgspec.structs.replace(whole, phases=[phase], findings=found)))


@pytest.mark.parametrize(("level", "said"), [("within_noise", True), ("likely", False)])
def test_what_is_beyond_noise_only_as_a_sum_of_places_is_said_to_be(level: str, said: bool) -> None:
    """Host work of +100 us is confirmed, and its only cause may be noise: no cause explains the row."""
    note = "host work: beyond noise as a sum, at none of its places alone."
    assert (note in notes_of_host_work({"host_work": "confirmed"}, level=level)) is said


@pytest.mark.parametrize(("cause_ns", "said"), [(120e3, True), (100.5e3, False), (-120e3, False)])
def test_a_row_that_is_smaller_than_its_causes_says_why(cause_ns: float, said: bool) -> None:
    """Host work of +100 us, and a cause of 120 us of it: other places have the -20 us."""
    note = "host work: the sum of places that rose and places that fell."
    assert (note in notes_of_host_work({}, delta_ns=cause_ns)) is said
